"""The sweep's verdict and what its write came to (C41, A20, A21, I53)."""

import json

import attrs
import pytest

from deepline.core.model.log_event import Level
from deepline.core.model.result import Completed, Failed, Report, RunnerTerminal
from deepline.core.model.sandbox import Inspection, Stage
from deepline.core.sweep_outcome import Counter
from deepline.core.sweep_verdict import (
    Refused,
    Stored,
    Verdict,
    WriteEnd,
    WriteFailed,
    after_late_write,
    after_write,
    choose_verdict,
    overran,
)
from deepline.core.verdicts import EXPIRED_EVENT
from tests.core.parked import BROKEN, DONE, at, beat, suspension
from tests.core.sweeping import LIMITS, runner

GONE = Inspection(stage=Stage.COMMAND_EXITED, exit_code=137)
FAILED = "detached_runner_liveness_verdict_failed"


def verdict(result: RunnerTerminal | None = None, *, provider: str = "daytona") -> Verdict:
    """The verdict five minutes after the last beat."""
    inspection = attrs.evolve(GONE, result=result)
    on = suspension()
    return choose_verdict(runner(provider=provider), on, inspection, at(300), LIMITS)


@pytest.mark.parametrize("result", [DONE, BROKEN])
def test_the_runner_s_own_result_is_the_verdict(result: RunnerTerminal) -> None:
    """What it left behind is the truth, completed or failed, and nothing is reported as lost."""
    chosen = verdict(attrs.evolve(result, report=Report(stats={"rows": 3}, logs=("a",))))

    assert type(chosen.terminal) is type(result)
    assert chosen.terminal.report.stats == {"rows": 3, "sandboxProvider": "daytona"}
    assert chosen.terminal.report.logs == ("a",)
    assert chosen.report is None
    assert chosen.why.rule == "sweep.inspected_result"
    assert chosen.why.evidence["status"] == ("completed" if result is DONE else "failed")


def test_without_a_result_the_runner_is_lost() -> None:
    """The lost verdict says what was seen, and the expiry report goes with it."""
    chosen = verdict()

    assert isinstance(chosen.terminal, Failed)
    assert chosen.terminal.error.startswith("RUNTIME_RUNNER_LOST:")
    liveness = chosen.terminal.report.stats["runnerLiveness"]
    assert isinstance(liveness, dict)
    assert liveness["livenessStatus"] == "waiting"
    assert liveness["inspectionAttempted"] is True
    assert liveness["inspectionStage"] == "command_exited"
    assert liveness["inspectionExitCode"] == 137
    assert liveness["heartbeatAgeMs"] == 300_000
    assert chosen.report is not None
    assert chosen.report["heartbeatAgeMs"] == 300_000
    json.dumps(chosen.report, allow_nan=False)
    assert chosen.why.rule == "sweep.lost"
    assert chosen.why.evidence == {
        "provider": "daytona",
        "sandbox_id": "sb-1",
        "stage": "command_exited",
        "exit_code": 137,
        "heartbeat_age_ms": 300_000,
    }


def test_a_runner_that_never_beat_has_no_age() -> None:
    """Its age is unknown, and said to be."""
    silent = runner(liveness=beat(None))

    chosen = choose_verdict(silent, suspension(), GONE, at(300), LIMITS)

    assert chosen.why.evidence["heartbeat_age_ms"] is None
    assert isinstance(chosen.terminal, Failed)
    assert "unknown" in chosen.terminal.error


@pytest.mark.parametrize("result", [None, DONE])
def test_the_provider_that_ran_it_is_stamped(result: RunnerTerminal | None) -> None:
    """The candidate's provider, whatever backend the launch or the result names (I53)."""
    claimed = None
    if result is not None:
        claimed = attrs.evolve(result, report=Report(stats={"sandboxProvider": "elsewhere"}))

    assert verdict(claimed, provider="modal").terminal.report.stats["sandboxProvider"] == "modal"


@pytest.mark.parametrize(
    ("end", "settles", "counts", "events"),
    [
        pytest.param(Stored(), True, (), (EXPIRED_EVENT,), id="written-settles"),
        pytest.param(Refused(), False, (Counter.FENCED,), (), id="refused-is-fenced"),
        pytest.param(
            WriteFailed("down"), False, (Counter.SETTLEMENT_FAILED,), (FAILED,), id="an-error-fails"
        ),
    ],
)
def test_a_write_within_its_pass(
    end: WriteEnd, settles: bool, counts: tuple[Counter, ...], events: tuple[str, ...]
) -> None:
    """Only what was written is settled, and each way is counted (C41.3)."""
    after = after_write(runner(), verdict(), end)

    assert (after.settles, after.told.counts) == (settles, counts)
    assert tuple(event.name for event in after.told.events) == events


def test_a_real_result_is_reported_by_no_expiry() -> None:
    """The expiry report is for synthetic verdicts alone."""
    own = verdict(Completed(output=1))

    assert after_write(runner(), own, Stored()).told.events == ()
    assert after_late_write(runner(), own, Stored()) == ()


@pytest.mark.parametrize(
    ("end", "events"),
    [
        pytest.param(Stored(), (EXPIRED_EVENT,), id="late-success-is-reported"),
        pytest.param(Refused(), (), id="late-refusal-is-nothing"),
        pytest.param(WriteFailed("down"), (FAILED,), id="late-error-is-said"),
    ],
)
def test_a_write_after_its_pass(end: WriteEnd, events: tuple[str, ...]) -> None:
    """It is said and never counted; the next pass settles what it wrote (C41.4)."""
    late = after_late_write(runner(), verdict(), end)

    assert tuple(event.name for event in late) == events


@pytest.mark.parametrize("late", [False, True])
def test_a_failed_write_says_when_it_failed(late: bool) -> None:
    """`afterPass` tells the two apart."""
    end = WriteFailed("down")
    if late:
        (event,) = after_late_write(runner(), verdict(), end)
    else:
        (event,) = after_write(runner(), verdict(), end).told.events

    assert event.level is Level.ERROR
    assert event.fields == {"runId": "run-1", "attempt": 2, "afterPass": late, "error": "down"}


def test_a_write_that_outlasts_its_pass_is_said() -> None:
    """It goes on unattended."""
    event = overran(runner())

    assert (event.level, event.name) == (Level.WARN, "detached_runner_liveness_verdict_overran")
    assert event.fields == {"runId": "run-1", "attempt": 2}
