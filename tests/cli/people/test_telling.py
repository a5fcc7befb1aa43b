"""How news are told: as JSON lines, as words, on a terminal; and how fast things go."""

import io
import json
from datetime import timedelta

import pytest
from rich.console import Console

from deepline.cli.people import news as told
from deepline.cli.people.durations import parse_length, show_s
from deepline.cli.people.live_display import LiveDisplay
from deepline.cli.people.news import News
from deepline.cli.people.pace import Pace
from deepline.cli.people.reports import JsonLines, PlainLines, lines_of, printable

HALF = told.Progressed(name="contacts", done=620, total=1_240, failed=7, rate_per_s=99.5, left_s=6)
EVERYTHING: list[News] = [
    told.Submitted(run_id="run_1", play="p", created=True, url="http://h", rows=1_240),
    told.LogLine(at_ms=5, text="hello", stream="stderr", fields={"n": 1}),
    HALF,
    told.GatewayAway(reason="no answer"),
    told.GatewayBack(),
    told.Note(text="a note"),
    told.SavedFile(path="out.csv", rows=3, failed_rows=1),
    told.WorkerStarted(pid=7),
    told.WorkerKilled(pid=7, signal="SIGKILL", done=620, total=1_240),
    told.Ended(run_id="run_1", status="failed", elapsed_s=2.5, sentence="It failed.", error="E: x"),
    told.Proof(what="sandboxes left", found="0", holds=True),
]


def test_json_lines_are_objects_with_a_kind() -> None:
    """Every line is one JSON object that says what it is, in camelCase."""
    stream = io.StringIO()
    report = JsonLines(stream)
    for news in EVERYTHING:
        report.tell(news)

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]

    assert [line["kind"] for line in lines] == [news.kind for news in EVERYTHING]
    assert lines[0]["runId"] == "run_1"
    assert lines[2]["ratePerS"] == 99.5
    assert lines[-2]["elapsedS"] == 2.5


@pytest.mark.parametrize(
    ("news", "lines"),
    [
        pytest.param(
            EVERYTHING[0], ["run run_1: p over 1,240 rows, submitted to http://h"], id="submitted"
        ),
        pytest.param(EVERYTHING[1], ["  | [stderr] hello n=1"], id="log"),
        pytest.param(
            HALF, ["contacts: 620 of 1,240 rows, 7 failed, 99.5/s, 6.0 s left"], id="progress"
        ),
        pytest.param(EVERYTHING[9], ["failed after 2.5 s: It failed.", "error: E: x"], id="ended"),
        pytest.param(EVERYTHING[6], ["output: out.csv (3 rows, 1 of them failed)"], id="output"),
        pytest.param(EVERYTHING[10], ["ok  sandboxes left: 0"], id="proof"),
    ],
)
def test_words(news: News, lines: list[str]) -> None:
    """A person reads short lines."""
    assert lines_of(news) == lines


def test_plain_progress_is_paced() -> None:
    """Without a terminal progress comes now and then, and once at the end."""
    now = 0.0
    stream = io.StringIO()
    report = PlainLines(stream, now=lambda: now)
    for done in (1, 2, 3):
        report.tell(told.Progressed(name="a", done=done, total=4, failed=0))
    now = 5.0
    report.tell(told.Progressed(name="a", done=3, total=4, failed=0))
    report.tell(told.Progressed(name="a", done=4, total=4, failed=0))

    assert [line.split()[1] for line in stream.getvalue().splitlines()] == ["1", "3", "4"]


def test_what_a_play_says_cannot_move_the_cursor() -> None:
    """Control characters are shown, not obeyed."""
    line = lines_of(told.LogLine(at_ms=0, text="a\x1b[2Jb\nc\u202e"))

    assert line == ["  | a\\x1b[2Jb\\nc\\u202e"]
    assert printable("naïve ★ \t") == "naïve ★"


def test_a_terminal_shows_bars_and_gets_them_back() -> None:
    """On a terminal each sheet has a bar; markup in a play's words is only text."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with LiveDisplay(console) as display:
        for news in EVERYTHING:
            display.tell(news)
        display.tell(told.LogLine(at_ms=0, text="[bold]not markup[/bold]"))
        for number in range(20):
            display.tell(told.Progressed(name=f"s{number}", done=1, total=2, failed=0))
    shown = console.file.getvalue()  # type: ignore[attr-defined] # it is the StringIO above

    assert "620/1240" in shown
    assert "7 failed" in shown
    assert "6.0 s left" in shown
    assert "[bold]not markup[/bold]" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor is back


def test_the_rate_is_of_the_last_moments() -> None:
    """A rate follows what happens now; time left follows the rate."""
    pace = Pace()
    first = pace.take({"name": "a", "done": 0, "total": 100, "failed": 0, "atMs": 0}, 0)
    fast = pace.take({"name": "a", "done": 40, "total": 100, "failed": 1, "atMs": 4_000}, 0)
    slow = pace.take({"name": "a", "done": 50, "total": 100, "failed": 1, "atMs": 14_000}, 0)

    assert first is not None
    assert first.rate_per_s is None
    assert fast is not None
    assert (fast.rate_per_s, fast.left_s, fast.failed) == (10.0, 6.0, 1)
    assert slow is not None
    assert slow.rate_per_s == 1.0


def test_pace_takes_odd_payloads() -> None:
    """What is no progress is left out; another attempt's count begins anew."""
    pace = Pace()

    assert pace.take({"done": "many"}, 0) is None
    assert pace.take({"done": 5, "total": None}, 1_000) == told.Progressed(
        name="play", done=5, total=None, failed=0
    )
    again = pace.take({"done": 1, "total": None}, 2_000)
    assert again is not None
    assert again.rate_per_s is None


@pytest.mark.parametrize(
    ("text", "length"),
    [("90", 90), ("90s", 90), ("15m", 900), (" 6H ", 21_600), ("2d", 172_800)],
)
def test_lengths_are_read(text: str, length: int) -> None:
    """A number and a unit; seconds without one."""
    assert parse_length(text) == timedelta(seconds=length)


@pytest.mark.parametrize("text", ["", "0", "-5", "1.5h", "5 m", "five", "9" * 12, "٣"])
def test_other_lengths_are_refused(text: str) -> None:
    """Anything else is refused with what to write."""
    with pytest.raises(ValueError, match="write 90s, 15m, 6h or 2d"):
        parse_length(text)


def test_lengths_are_shown() -> None:
    """Short lengths to a tenth, long ones in their two largest units."""
    assert [show_s(s) for s in (0.44, 59.96, 125, 11_520)] == [
        "0.4 s",
        "60.0 s",
        "2 min 05 s",
        "3 h 12 min",
    ]
