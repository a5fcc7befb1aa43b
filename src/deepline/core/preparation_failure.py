"""What to do when preparing an attempt fails, and when settling that fails too (C15, A30).

Preparation comes before the attempt, so nothing after it can settle the run. An outage of the
store is waited out without a deadline: a terminal would need the same store, so no deadline
could settle anything sooner. A final failure cancels the run, provided it is still unstarted;
just failing the task would leave the run queued for ever with no task.
"""

from datetime import timedelta
from typing import TypeAlias

import attrs

from deepline.core.failures import (
    CapacityFailure,
    EngineSignal,
    Failure,
    FenceLostFailure,
    RetryableFailure,
    UnknownOutcome,
    name_of,
)
from deepline.core.model.json_value import JsonObject
from deepline.core.model.why import Why

PREPARATION_FAILED = "SCHEDULER_ATTEMPT_PREPARATION_FAILED"


@attrs.frozen(kw_only=True)
class PassSignal:
    """The engine wants it so: let the signal through unchanged."""

    signal: EngineSignal
    why: Why


@attrs.frozen(kw_only=True)
class PassCapacity:
    """Defer as capacity asks (C54), without an attempt to retire."""

    failure: CapacityFailure
    why: Why


@attrs.frozen(kw_only=True)
class DeferPreparation:
    """Put the engine run off by `delay`; no engine attempt is spent."""

    delay: timedelta
    reason: str
    why: Why


@attrs.frozen(kw_only=True)
class LeaveToHolder:
    """The claim is another holder's: write nothing."""

    why: Why


@attrs.frozen(kw_only=True)
class SpendEngineAttempt:
    """Fail this engine attempt with the original `reason`; the engine decides about the next."""

    reason: str
    why: Why


@attrs.frozen(kw_only=True)
class SettleUnstarted:
    """Cancel the run with `cancel_reason` if it is unstarted, then fail the engine attempt.

    The condition is the claim's release and task; the engine's own task row is not looked at
    (A30). If the cancel itself fails, ask `after_settlement_failure`.
    """

    cancel_reason: str
    reason: str
    why: Why


PreparationDecision: TypeAlias = (
    PassSignal
    | PassCapacity
    | DeferPreparation
    | LeaveToHolder
    | SpendEngineAttempt
    | SettleUnstarted
)
SettlementDecision: TypeAlias = PassCapacity | DeferPreparation | SpendEngineAttempt


def after_preparation_failure(
    failure: Failure, *, engine_attempt: int, max_engine_attempts: int | None, delay: timedelta
) -> PreparationDecision:
    """Decide after preparing failed; the order of the tests is the precedence of the table."""
    evidence: JsonObject = {
        "failure": name_of(failure),
        "reason": failure.reason,
        "engine_attempt": engine_attempt,
        "max_engine_attempts": max_engine_attempts,
    }
    if isinstance(failure, EngineSignal):
        return PassSignal(signal=failure, why=Why("preparation.engine_signal", evidence))
    if isinstance(failure, CapacityFailure):
        return PassCapacity(failure=failure, why=Why("preparation.capacity", evidence))
    if isinstance(failure, RetryableFailure | UnknownOutcome):
        why = Why("preparation.deferred", evidence)
        return DeferPreparation(delay=delay, reason=failure.reason, why=why)
    if isinstance(failure, FenceLostFailure):
        return LeaveToHolder(why=Why("preparation.claim_lost", evidence))
    if max_engine_attempts is None or engine_attempt < max_engine_attempts:
        why = Why("preparation.attempt_spent", evidence)
        return SpendEngineAttempt(reason=failure.reason, why=why)
    return SettleUnstarted(
        cancel_reason=f"{PREPARATION_FAILED}: {failure.reason}",
        reason=failure.reason,
        why=Why("preparation.exhausted", evidence),
    )


def after_settlement_failure(
    settlement: Failure, original_reason: str, *, delay: timedelta
) -> SettlementDecision:
    """Decide after the cancel of an unstarted run failed with `settlement`.

    A store that may answer later keeps this final attempt until the cancel can commit. Anything
    else is only logged, and the original failure goes its way.
    """
    evidence: JsonObject = {"failure": name_of(settlement), "reason": settlement.reason}
    if isinstance(settlement, CapacityFailure):
        why = Why("preparation.settlement_capacity", evidence)
        return PassCapacity(failure=settlement, why=why)
    if isinstance(settlement, RetryableFailure | UnknownOutcome):
        why = Why("preparation.settlement_deferred", evidence)
        return DeferPreparation(delay=delay, reason=settlement.reason, why=why)
    why = Why("preparation.settlement_failed", evidence)
    return SpendEngineAttempt(reason=original_reason, why=why)
