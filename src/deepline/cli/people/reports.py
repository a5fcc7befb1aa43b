"""Telling news as lines: one JSON object each for programs, words for everybody else.

What a play logs is shown without its control characters, so that it cannot move the cursor of
whoever watches it.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO, assert_never

import attrs

from deepline.cli.people import news as told
from deepline.cli.people.durations import show_s
from deepline.cli.people.news import News, as_json
from deepline.ports.wire import encode_json

PROGRESS_EVERY_S = 2.0
OUTPUT_CHARS_MAX = 1_000


class Report(Protocol):
    """Where a command tells its news."""

    def tell(self, news: News) -> None:
        """Tell one piece; returns at once."""
        ...


@attrs.define
class JsonLines:
    """One JSON object a line, and nothing else, each written at once."""

    stream: TextIO

    def tell(self, news: News) -> None:
        """Write the line."""
        print(encode_json(as_json(news)), file=self.stream, flush=True)


@attrs.define
class PlainLines:
    """Words, one line each; progress now and then."""

    stream: TextIO
    now: Callable[[], float] = time.monotonic
    _told_at: dict[str, float] = attrs.field(factory=dict)

    def tell(self, news: News) -> None:
        """Write what a person wants to read, if anything."""
        if isinstance(news, told.Progressed) and not self._due(news):
            return
        for line in lines_of(news):
            print(line, file=self.stream, flush=True)

    def _due(self, news: told.Progressed) -> bool:
        now = self.now()
        if news.done != news.total and now - self._told_at.get(news.name, -60) < PROGRESS_EVERY_S:
            return False
        self._told_at[news.name] = now
        return True


@contextmanager
def open_report(*, json: bool) -> Iterator[Report]:
    """The report for this output: JSON, a live display on a terminal, else plain lines."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # any text stream
    if json:
        yield JsonLines(sys.stdout)
    elif sys.stdout.isatty():
        from deepline.cli.people.live_display import LiveDisplay

        with LiveDisplay() as display:
            yield display
    else:
        yield PlainLines(sys.stdout)


def lines_of(news: News) -> list[str]:
    """One piece of news as lines for a person."""
    match news:
        case told.Submitted(run_id=run_id, play=play, created=created, url=url, rows=rows):
            what = play if rows is None else f"{play} over {rows:,} rows"
            return [f"run {run_id}: {what}, {'submitted to' if created else 'found at'} {url}"]
        case told.LogLine():
            return [log_line(news)]
        case told.Progressed():
            return [progress_line(news)]
        case told.GatewayAway(reason=reason):
            return [f"the gateway does not answer ({reason}); the run goes on, trying again …"]
        case told.GatewayBack():
            return ["the gateway answers again"]
        case told.Note(text=text):
            return [text]
        case told.SavedFile(path=path, rows=rows, failed_rows=failed):
            counts = "" if rows is None else f" ({rows:,} rows, {failed or 0:,} of them failed)"
            return [f"output: {path}{counts}"]
        case told.Ended():
            return _ending(news)
        case told.WorkerStarted(pid=pid):
            return [f"worker {pid} started"]
        case told.WorkerKilled(pid=pid, signal=signal, done=done, total=total):
            return [f"killed worker {pid} with {signal} when {done:,} of {total:,} rows were done"]
        case told.Proof(what=what, found=found, holds=holds):
            return [f"{'ok ' if holds else 'NO '} {what}: {found}"]
        case _:
            assert_never(news)


def progress_line(news: told.Progressed) -> str:
    """`contacts: 520 of 1,240 rows, 61 failed, 96.1/s, 7.5 s left`."""
    total = "" if news.total is None else f" of {news.total:,}"
    rate = "" if news.rate_per_s is None else f", {news.rate_per_s:,.1f}/s"
    left = "" if not news.left_s else f", {show_s(news.left_s)} left"
    return f"{news.name}: {news.done:,}{total} rows, {news.failed:,} failed{rate}{left}"


def log_line(news: told.LogLine) -> str:
    """The text and its fields, without control characters."""
    fields = "".join(
        f" {name}={value if isinstance(value, str) else encode_json(value)}"
        for name, value in news.fields.items()
    )
    stream = "" if news.stream in {None, "log", "stdout"} else f"[{news.stream}] "
    return printable(f"  | {stream}{news.text}{fields}")


def printable(text: str) -> str:
    """The text on one line, with everything that a terminal would obey made visible."""
    return "".join(
        one if one.isprintable() or one == "\t" else repr(one)[1:-1] for one in text.rstrip()
    )


def _ending(news: told.Ended) -> list[str]:
    lines = [f"{news.status} after {show_s(news.elapsed_s)}: {printable(news.sentence)}"]
    if news.error is not None:
        lines.append(f"error: {printable(news.error)}")
    if news.output is not None:
        text = encode_json(news.output)
        cut = "…" if len(text) > OUTPUT_CHARS_MAX else ""
        lines.append(f"result: {printable(text[:OUTPUT_CHARS_MAX])}{cut}")
    return lines
