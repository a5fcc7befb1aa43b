"""Telling news on a terminal: a bar for each sheet below, everything else above it."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from deepline.cli.people import news as told
from deepline.cli.people.durations import show_s
from deepline.cli.people.news import News
from deepline.cli.people.reports import lines_of

BARS_MAX = 10
_STYLES: dict[type, str] = {
    told.LogLine: "dim",
    told.GatewayAway: "yellow",
    told.WorkerKilled: "bold red",
    told.WorkerStarted: "green",
    told.Submitted: "bold",
}


class LiveDisplay:
    """A report for a terminal; open it with `with`, which gives the terminal back at the end."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = Console(highlight=False) if console is None else console
        self._bars: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rest]}", markup=False),
            console=self._console,
            transient=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def tell(self, news: News) -> None:
        """Show it."""
        if isinstance(news, told.Progressed):
            self._show_bar(news)
            return
        if isinstance(news, told.Ended | told.Proof):
            # The bars have said all they can, and stay as they are.
            self._progress.stop()
        for line in lines_of(news):
            self._console.print(Text(line, style=_style(news)), soft_wrap=True)

    def _show_bar(self, news: told.Progressed) -> None:
        bar = self._bars.get(news.name)
        if bar is None:
            if len(self._bars) >= BARS_MAX:
                return
            if not self._bars:
                self._progress.start()
            bar = self._progress.add_task(news.name[:40], total=news.total, rest="")
            self._bars[news.name] = bar
        self._progress.update(bar, completed=news.done, total=news.total, rest=_rest(news))


def _rest(news: told.Progressed) -> str:
    parts = [f"{news.failed:,} failed"]
    if news.rate_per_s is not None:
        parts.append(f"{news.rate_per_s:,.1f}/s")
    if news.left_s:
        parts.append(f"{show_s(news.left_s)} left")
    return "  ".join(parts)


def _style(news: News) -> str:
    if isinstance(news, told.Ended):
        return {"completed": "bold green", "failed": "bold red"}.get(news.status, "bold yellow")
    if isinstance(news, told.Proof):
        return "green" if news.holds else "bold red"
    return _STYLES.get(type(news), "")
