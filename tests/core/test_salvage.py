"""The terminal of a dying engine attempt (C20, Q13, I03, L01)."""

import itertools
from datetime import timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.failures import (
    CapacityFailure,
    EngineSignal,
    Failure,
    FenceLostFailure,
)
from deepline.core.model.run import RunStatus
from deepline.core.salvage import (
    WAITS,
    KeepFinalAttempt,
    NoSalvage,
    RetryDecision,
    Salvage,
    SalvageDecision,
    SalvageFailed,
    SalvageImpossible,
    StopObserved,
    TryAgain,
    after_failed_write,
    before_retry,
    decide_salvage,
)
from tests.core.every_failure import CAPACITY, EVERY_FAILURE, OTHER, SIGNALS, failures

KEEP = timedelta(seconds=30)
FINAL = "The play-run task failed on its final engine attempt ({}): a bug"
FORCED = "The executor-token outage bound was exhausted on engine attempt {}: a bug"


def gate(
    failure: Failure = OTHER,
    *,
    attempt: int = 5,
    maximum: int | None = 5,
    force: bool = False,
    detached: bool = False,
) -> SalvageDecision:
    """Ask the gate; by default about an ordinary failure on the final attempt."""
    return decide_salvage(
        failure,
        engine_attempt=attempt,
        max_engine_attempts=maximum,
        force=force,
        detached_recovery=detached,
    )


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize(
    ("maximum", "force", "attempt", "kind", "rule"),
    [
        pytest.param(None, False, 1, SalvageImpossible, "attempts_unknown", id="C20-no-max"),
        pytest.param(None, True, 1, SalvageImpossible, "attempts_unknown", id="C20-no-max-forced"),
        pytest.param(0, True, 1, SalvageImpossible, "attempts_unknown", id="C20-invalid-max"),
        pytest.param(5, False, 4, NoSalvage, "attempts_left", id="C20-attempts-left"),
        pytest.param(5, False, 5, Salvage, "final_attempt", id="C20-final"),
        pytest.param(5, False, 6, Salvage, "final_attempt", id="C20-finaliser"),
        pytest.param(5, True, 1, Salvage, "forced", id="C20-forced"),
        pytest.param(5, True, 4, Salvage, "forced", id="C20-forced-last-but-one"),
        pytest.param(5, True, 5, Salvage, "final_attempt", id="C20-forced-on-the-final"),
    ],
)
def test_gate(
    maximum: int | None,
    attempt: int,
    kind: type,
    rule: str,
    *,
    force: bool,
    detached: bool,
) -> None:
    """The count decides, and force stands in for it; nobody guesses an unknown count."""
    decision = gate(attempt=attempt, maximum=maximum, force=force, detached=detached)

    assert isinstance(decision, kind)
    assert decision.why.rule == f"salvage.{rule}"
    assert decision.why.evidence["reason"] == "a bug"


@pytest.mark.parametrize(
    ("attempt", "force", "error"),
    [
        pytest.param(5, False, FINAL.format("5/5"), id="C20-text-final"),
        pytest.param(5, True, FINAL.format("5/5"), id="C20-text-final-though-forced"),
        pytest.param(2, True, FORCED.format("2/5"), id="C20-text-forced"),
    ],
)
def test_texts(attempt: int, error: str, *, force: bool) -> None:
    """The failed result says which bound was reached, on which attempt, and the cause."""
    decision = gate(attempt=attempt, force=force)

    assert isinstance(decision, Salvage)
    assert decision.result.error == error
    assert decision.result.report.logs == ()


@pytest.mark.parametrize("detached", [False, True])
def test_a_detached_recovery_prefers_the_runners_word(*, detached: bool) -> None:
    """Only on a detached recovery does a stored runner terminal win over the synthetic one."""
    decision = gate(detached=detached)

    assert isinstance(decision, Salvage)
    assert decision.detached_recovery is detached


@pytest.mark.parametrize(
    "signal", [pytest.param(s, id=f"C20-{name}") for name, s in SIGNALS.items()]
)
def test_signals_are_never_salvaged(signal: EngineSignal) -> None:
    """A parked, deferred, cancelled or failed task is the engine's, even forced and final."""
    decision = gate(signal, force=True, maximum=None)

    assert isinstance(decision, NoSalvage)
    assert decision.why.rule == "salvage.engine_signal"


def test_the_impossible_is_told_aloud() -> None:
    """Without a number of attempts the message says who failed to give it."""
    decision = gate(maximum=None)

    assert isinstance(decision, SalvageImpossible)
    assert "engine" in decision.message


def retry(failure: Failure, failed_writes: int) -> RetryDecision:
    """Decide after a failed write with the contract's long deferral."""
    return after_failed_write(failure, failed_writes=failed_writes, keep_delay=KEEP)


@pytest.mark.parametrize(
    ("failed_writes", "wait"),
    [
        pytest.param(1, 0.25, id="Q13-first-wait"),
        pytest.param(2, 1.0, id="Q13-second-wait"),
        pytest.param(3, 4.0, id="Q13-third-wait"),
        pytest.param(0, 0.25, id="Q13-miscounted"),
    ],
)
@pytest.mark.parametrize(
    "name", ["retryable-connection", "unknown-outcome", "other", "outage", "pre-code"]
)
def test_the_write_is_tried_again(name: str, failed_writes: int, wait: float) -> None:
    """Three further tries, after 0.25, 1 and 4 s, whatever failed."""
    decision = retry(EVERY_FAILURE[name], failed_writes)

    assert isinstance(decision, TryAgain)
    assert decision.delay == timedelta(seconds=wait)


@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [
        pytest.param(timedelta(seconds=2), timedelta(seconds=2), id="Q13-capacity-asks"),
        pytest.param(timedelta(hours=2), timedelta(seconds=5), id="Q13-capacity-is-capped"),
        pytest.param(timedelta(seconds=-2), timedelta(0), id="Q13-capacity-negative"),
        pytest.param(None, timedelta(seconds=0.25), id="Q13-capacity-without-time"),
    ],
)
def test_capacity_names_its_wait(retry_after: timedelta | None, wait: timedelta) -> None:
    """A capacity failure waits what it asks for, at most 5 s."""
    decision = retry(attrs.evolve(CAPACITY, retry_after=retry_after), 1)

    assert isinstance(decision, TryAgain)
    assert decision.delay == wait


@pytest.mark.parametrize(
    ("name", "kind", "rule"),
    [
        pytest.param("capacity", KeepFinalAttempt, "kept", id="Q13-capacity"),
        pytest.param("unknown-outcome", KeepFinalAttempt, "kept", id="Q13-unknown"),
        *(
            pytest.param(name, KeepFinalAttempt, "kept", id=f"Q13-{name}")
            for name in EVERY_FAILURE
            if name.startswith("retryable")
        ),
        pytest.param("other", SalvageFailed, "failed", id="Q13-other"),
        pytest.param("outage", SalvageFailed, "failed", id="Q13-outage"),
        pytest.param("pre-code", SalvageFailed, "failed", id="Q13-pre-code"),
    ],
)
def test_all_tries_failed(name: str, kind: type, rule: str) -> None:
    """A store that may answer later keeps the final attempt; else the original error goes on."""
    decision = retry(EVERY_FAILURE[name], 4)

    assert isinstance(decision, kind)
    assert decision.why.rule == f"salvage.{rule}"
    if isinstance(decision, KeepFinalAttempt):
        assert decision.delay == KEEP


@pytest.mark.parametrize("failed_writes", [1, 4])
@pytest.mark.parametrize("name", ["fence-lost", *SIGNALS])
def test_a_lost_fence_ends_the_tries(name: str, failed_writes: int) -> None:
    """When the run is in other hands there is nothing to try."""
    decision = retry(EVERY_FAILURE[name], failed_writes)

    assert isinstance(decision, StopObserved)
    assert decision.why.rule == "salvage.not_ours"


def test_before_retry() -> None:
    """Only an open run under our fence is written to again; all combinations."""
    for status, held in itertools.product((None, *RunStatus), (False, True)):
        decision = before_retry(status, fence_held=held)

        open_run = status is not None and not status.is_terminal
        assert isinstance(decision, TryAgain) is (open_run and held)
        if isinstance(decision, TryAgain):
            assert decision.delay == timedelta(0)
        assert decision.why.rule == (
            "salvage.already_over"
            if not open_run
            else "salvage.still_open"
            if held
            else "salvage.fence_lost"
        )


@given(
    failure=failures,
    attempt=st.integers(0, 9),
    maximum=st.none() | st.integers(-1, 9),
    force=st.booleans(),
    detached=st.booleans(),
)
def test_the_gate_always_answers(
    failure: Failure, attempt: int, maximum: int | None, *, force: bool, detached: bool
) -> None:
    """Everything gets one answer, and a salvage is forced or final, never of a signal."""
    decision = gate(failure, attempt=attempt, maximum=maximum, force=force, detached=detached)

    known = maximum is not None and maximum >= 1
    due = maximum is not None and (force or attempt >= maximum)
    signal = isinstance(failure, EngineSignal)
    assert isinstance(decision, SalvageImpossible) is (not signal and not known)
    assert isinstance(decision, Salvage) is (not signal and known and due)


@given(failure=failures, failed_writes=st.integers(0, 9))
def test_the_tries_end(failure: Failure, failed_writes: int) -> None:
    """There are at most as many further tries as waits, and no wait is over 5 s."""
    decision = retry(failure, failed_writes)

    if isinstance(decision, TryAgain):
        assert failed_writes <= len(WAITS)
        assert timedelta(0) <= decision.delay <= timedelta(seconds=5)
    if isinstance(failure, CapacityFailure) and failed_writes > len(WAITS):
        assert isinstance(decision, KeepFinalAttempt)
    assert isinstance(decision, StopObserved) is isinstance(
        failure, FenceLostFailure | EngineSignal
    )
