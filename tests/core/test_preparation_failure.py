"""What follows when preparing an attempt fails (C15, I15, I28, L08)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.failures import (
    CapacityFailure,
    EngineSignal,
    Failure,
    FenceLostFailure,
    OtherFailure,
    RetryableFailure,
    UnknownOutcome,
)
from deepline.core.preparation_failure import (
    DeferPreparation,
    LeaveToHolder,
    PassCapacity,
    PassSignal,
    PreparationDecision,
    SettleUnstarted,
    SpendEngineAttempt,
    after_preparation_failure,
    after_settlement_failure,
)
from tests.core.every_failure import EVERY_FAILURE, failures

DELAY = timedelta(seconds=30)
KINDS: dict[str, tuple[type, str]] = {
    "signal-defer": (PassSignal, "engine_signal"),
    "signal-suspend": (PassSignal, "engine_signal"),
    "signal-cancelled": (PassSignal, "engine_signal"),
    "signal-failed": (PassSignal, "engine_signal"),
    "capacity": (PassCapacity, "capacity"),
    "retryable-connection": (DeferPreparation, "deferred"),
    "retryable-server_unavailable": (DeferPreparation, "deferred"),
    "retryable-circuit_open": (DeferPreparation, "deferred"),
    "retryable-retryable_transaction": (DeferPreparation, "deferred"),
    "retryable-query_cancelled": (DeferPreparation, "deferred"),
    "unknown-outcome": (DeferPreparation, "deferred"),
    "fence-lost": (LeaveToHolder, "claim_lost"),
}
ORDINARY = ("outage", "pre-code", "other")


def decide(failure: Failure, engine_attempt: int, max_attempts: int | None) -> PreparationDecision:
    """Decide with the contract's delay."""
    return after_preparation_failure(
        failure,
        engine_attempt=engine_attempt,
        max_engine_attempts=max_attempts,
        delay=DELAY,
    )


@pytest.mark.parametrize("engine_attempt", [1, 5, 6])
@pytest.mark.parametrize(
    ("failure", "kind", "rule"),
    [
        pytest.param(EVERY_FAILURE[name], kind, rule, id=f"C15-{name}")
        for name, (kind, rule) in KINDS.items()
    ],
)
def test_what_costs_no_engine_attempt(
    failure: Failure, engine_attempt: int, kind: type, rule: str
) -> None:
    """Signals and capacity go their way and an outage defers, on the final attempt too."""
    decision = decide(failure, engine_attempt, 5)

    assert isinstance(decision, kind)
    assert decision.why.rule == f"preparation.{rule}"


@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.parametrize(
    ("engine_attempt", "max_attempts", "kind", "rule"),
    [
        pytest.param(1, 5, SpendEngineAttempt, "attempt_spent", id="C15-else-first"),
        pytest.param(4, 5, SpendEngineAttempt, "attempt_spent", id="C15-else-last-but-one"),
        pytest.param(9, None, SpendEngineAttempt, "attempt_spent", id="C15-R5-max-unknown"),
        pytest.param(5, 5, SettleUnstarted, "exhausted", id="C15-else-final"),
        pytest.param(6, 5, SettleUnstarted, "exhausted", id="C15-else-finaliser"),
        pytest.param(1, 1, SettleUnstarted, "exhausted", id="C15-else-only"),
    ],
)
def test_anything_else(
    name: str, engine_attempt: int, max_attempts: int | None, kind: type, rule: str
) -> None:
    """Before the final attempt one is spent; the final one settles the run first."""
    decision = decide(EVERY_FAILURE[name], engine_attempt, max_attempts)

    assert isinstance(decision, kind)
    assert decision.why.rule == f"preparation.{rule}"


def test_the_table_is_whole() -> None:
    """Every class of failure stands in exactly one of the two tests above."""
    assert sorted((*KINDS, *ORDINARY)) == sorted(EVERY_FAILURE)


def test_the_deferral_keeps_the_reason() -> None:
    """A deferral waits 30 s and says why; it knows no deadline."""
    decision = decide(EVERY_FAILURE["retryable-connection"], 1, 5)

    assert isinstance(decision, DeferPreparation)
    assert (decision.delay, decision.reason) == (DELAY, "store is away")


def test_the_settlement_names_its_code_and_keeps_the_original() -> None:
    """The cancel reason is the contract's code and the failure; the original goes on."""
    decision = decide(EVERY_FAILURE["other"], 5, 5)

    assert isinstance(decision, SettleUnstarted)
    assert decision.cancel_reason == "SCHEDULER_ATTEMPT_PREPARATION_FAILED: a bug"
    assert decision.reason == "a bug"


@pytest.mark.parametrize(
    ("name", "kind", "rule"),
    [
        pytest.param("capacity", PassCapacity, "settlement_capacity", id="C15-R5-capacity"),
        *(
            pytest.param(name, DeferPreparation, "settlement_deferred", id=f"C15-R5-{name}")
            for name in KINDS
            if name.startswith("retryable") or name == "unknown-outcome"
        ),
        *(
            pytest.param(name, SpendEngineAttempt, "settlement_failed", id=f"C15-R5-{name}")
            for name in ("other", "outage", "pre-code", "fence-lost", "signal-cancelled")
        ),
    ],
)
def test_after_settlement_failure(name: str, kind: type, rule: str) -> None:
    """A store that may answer later keeps the final attempt; else the original goes on."""
    decision = after_settlement_failure(EVERY_FAILURE[name], "the original", delay=DELAY)

    assert isinstance(decision, kind)
    assert decision.why.rule == f"preparation.{rule}"
    if isinstance(decision, SpendEngineAttempt):
        assert decision.reason == "the original"
    if isinstance(decision, DeferPreparation):
        assert decision.delay == DELAY


@given(
    failure=failures,
    engine_attempt=st.integers(0, 9),
    max_attempts=st.none() | st.integers(0, 9),
)
def test_precedence(failure: Failure, engine_attempt: int, max_attempts: int | None) -> None:
    """Engine signals, then capacity, then an outage, then a lost claim, then the count."""
    decision = decide(failure, engine_attempt, max_attempts)

    final = max_attempts is not None and engine_attempt >= max_attempts
    if isinstance(failure, EngineSignal):
        assert isinstance(decision, PassSignal)
        assert decision.signal == failure
    elif isinstance(failure, CapacityFailure):
        assert isinstance(decision, PassCapacity)
        assert decision.failure == failure
    elif isinstance(failure, RetryableFailure | UnknownOutcome):
        assert isinstance(decision, DeferPreparation)
    elif isinstance(failure, FenceLostFailure):
        assert isinstance(decision, LeaveToHolder)
    else:
        assert isinstance(decision, SettleUnstarted if final else SpendEngineAttempt)


@given(failure=failures, original=st.text(max_size=9))
def test_the_original_is_never_lost(failure: Failure, original: str) -> None:
    """A failed settlement defers, or the original failure is the one that goes on."""
    decision = after_settlement_failure(failure, original, delay=DELAY)

    if isinstance(decision, SpendEngineAttempt):
        assert decision.reason == original
        assert not isinstance(failure, CapacityFailure | RetryableFailure | UnknownOutcome)
    if isinstance(failure, OtherFailure):
        assert isinstance(decision, SpendEngineAttempt)
