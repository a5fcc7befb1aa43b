"""Lines and counts of one process (C58, C62)."""

import io
import json
import logging
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from deepline.adapters.telemetry import (
    LogFormat,
    LogLevel,
    LogLines,
    Metrics,
    ProcessTelemetry,
    Redactor,
    forward_standard_logs,
)
from deepline.adapters.telemetry.pacing import BURST, PERIOD_S


@attrs.define
class StandingClock:
    at_s: float = 100.0

    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.at_s

    async def sleep(self, length: timedelta) -> None:
        raise NotImplementedError


class Scene:
    def __init__(self, shape: LogFormat = LogFormat.JSON, least: LogLevel = LogLevel.INFO) -> None:
        self.stream = io.StringIO()
        self.clock = StandingClock()
        self.lines = LogLines(
            self.stream, clock=self.clock, redactor=Redactor(), shape=shape, least=least
        )
        self.metrics = Metrics()
        self.telemetry = ProcessTelemetry(self.lines, self.metrics, self.clock)

    @property
    def told(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def scene() -> Scene:
    """A process that writes JSON."""
    return Scene()


def test_an_event_is_one_line_of_json_with_its_bracketed_channel(scene: Scene) -> None:
    """Machines read the time, the level, the channel with the name, and the fields as they are."""
    scene.telemetry.info("absurd-runtime.worker", "terminal_committed", runId="r1", attempt=2)

    assert scene.told == [
        {
            "at": "2026-01-02T03:04:05.000+00:00",
            "level": "info",
            "event": "[absurd-runtime.worker] terminal_committed",
            "runId": "r1",
            "attempt": 2,
        }
    ]


def test_what_json_does_not_know_is_still_json(scene: Scene) -> None:
    """Numbers without end, half characters and line breaks do not break the line."""
    scene.telemetry.info("c", "n", far=float("inf"), half="\ud800", lines="a\nb", event="mine")

    [line] = scene.told
    assert line["far"] == "inf"
    assert line["half"] == "\ud800"
    assert line["lines"] == "a\nb"
    assert line["event"] == "[c] n"
    assert line["event_"] == "mine"


def test_columns_are_one_line_an_event_and_colourless_off_a_terminal() -> None:
    """A pipe gets no escape codes, and a value of two lines no second line."""
    scene = Scene(LogFormat.CONSOLE)

    scene.telemetry.warn("c", "n", error="a\nb")

    written = scene.stream.getvalue()
    assert written.count("\n") == 1
    assert "\x1b" not in written
    assert "[c] n" in written


def test_less_important_lines_are_left_out_but_counted() -> None:
    """The level decides about lines alone."""
    scene = Scene(least=LogLevel.WARN)

    scene.telemetry.info("c", "quiet")
    scene.telemetry.error("c", "loud")

    assert [line["event"] for line in scene.told] == ["[c] loud"]
    assert b'deepline_events_total{event="quiet",level="info"} 1.0' in scene.metrics.render()


def test_a_failing_loop_is_told_some_times_and_counted_each_time(scene: Scene) -> None:
    """An outage makes no more than a few lines a period, and the next one says how many more."""
    for _ in range(10):
        scene.telemetry.warn("c", "claim_failed", error="away")
    scene.clock.at_s += PERIOD_S
    scene.telemetry.warn("c", "claim_failed", error="away")

    assert [line.get("withheld") for line in scene.told] == [None] * BURST + [10 - BURST]
    assert b'event="claim_failed",level="warn"} 11.0' in scene.metrics.render()


def test_controllers_do_not_hold_back_each_other(scene: Scene) -> None:
    """Each controller that fails is named."""
    for name in ("cleanup", "listener", "projector", "dispatcher"):
        scene.telemetry.warn("c", "controller_restarting", controller=name, error="away")

    assert len(scene.told) == 4


def test_what_happened_to_a_run_is_never_held_back(scene: Scene) -> None:
    """Twenty runs deferred are twenty lines."""
    for number in range(20):
        scene.telemetry.warn("c", "executor_token_outage_deferred", runId=f"r{number}")

    assert len(scene.told) == 20


def test_a_reader_that_has_gone_disturbs_nobody() -> None:
    """A closed stream loses the line and nothing else."""
    scene = Scene()
    scene.stream.close()

    scene.telemetry.error("c", "n")

    assert b'event="n"' in scene.metrics.render()


def test_what_libraries_log_becomes_lines_of_ours(scene: Scene) -> None:
    """Warnings of `logging` arrive until forwarding ends, without a trace or a secret."""
    undo = forward_standard_logs(scene.lines)
    try:
        try:
            int("inside")
        except ValueError:
            logging.getLogger("somebody").exception("it broke: %s", "Bearer abcdefgh1234")
        logging.getLogger("somebody").info("chatter")
    finally:
        undo()
    logging.getLogger("somebody").error("later")

    [line] = scene.told
    assert line["event"] == "[somebody] logged"
    assert line["message"] == "it broke: Bearer ***"
    assert line["errorType"] == "ValueError"
