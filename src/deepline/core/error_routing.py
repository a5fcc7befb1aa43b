"""Which actions follow when the execution of a claim ends in an error, and in which order (C19).

The answer is a tuple of actions as data. The runtime carries them out from left to right. A
*question* (`AskCapacity`, `AskPreCode`, `AskOutage`, `AskStore`, `AskRun`, `SalvageTerminal`) may
end the list early: when its own rule defers or finds the run in other hands, only `ReleaseAttempt`
is left.

What the order protects: a live detached runner is never destroyed, and its run never ended, by
the failure of those who watch it (I12, I14, A31). So on a wake and after a failed handoff no
action writes a cleanup obligation; cleanup follows from the recorded terminal alone.
"""

import enum
from datetime import timedelta
from typing import TypeAlias

import attrs

from deepline.core.failures import (
    CapacityFailure,
    EngineSignal,
    Failure,
    FenceLostFailure,
    PreCodeFailure,
    RetryableFailure,
    TokenOutage,
    UnknownOutcome,
    name_of,
)
from deepline.core.model.json_value import JsonObject
from deepline.core.model.why import Why


class Situation(enum.StrEnum):
    """Where the attempt stands with respect to a detached runner (A4).

    `FRESH`: no runner of this attempt can be alive, which is also so after a sleep or an event
    woke it. `WAKE`: the attempt was claimed as a parked wake of a detached runner and still is
    `waiting`. `HANDOFF`: this execution started the runner and could not park.
    """

    FRESH = "fresh"
    WAKE = "wake"
    HANDOFF = "handoff"


@attrs.frozen(kw_only=True)
class PassSignal:
    """Let the engine's signal through unchanged."""

    signal: EngineSignal


@attrs.frozen(kw_only=True)
class SettleObserved:
    """The fence is lost: write nothing, settle as observed (C27)."""


@attrs.frozen(kw_only=True)
class AskRun:
    """Read the run again: over or fenced off means settle as observed and end; else go on."""


@attrs.frozen(kw_only=True)
class AskCapacity:
    """Carry `capacity_deferral.defer_for_capacity` out; it always defers and ends the list."""

    failure: CapacityFailure
    fresh_attempt: bool


@attrs.frozen(kw_only=True)
class AskPreCode:
    """Ask `pre_code.decide_pre_code`; a deferral ends the list, anything else goes on."""

    failure: PreCodeFailure


@attrs.frozen(kw_only=True)
class AskOutage:
    """Ask `token_outage`, by ceiling when `detached`; a deferral ends the list, else go on."""

    failure: TokenOutage
    detached: bool


@attrs.frozen(kw_only=True)
class AskStore:
    """Ask `store_outage.outage_of_wake`; a deferral ends the list, else go on."""

    failure: RetryableFailure | UnknownOutcome


@attrs.frozen(kw_only=True)
class WithholdCleanup:
    """Record that cleanup of the sandbox is not authorised."""


@attrs.frozen(kw_only=True)
class DeferHandoff:
    """Put the engine run off: the detached runner keeps the execution. Ends the list."""

    delay: timedelta
    reason: str


@attrs.frozen(kw_only=True)
class PersistCleanup:
    """Write the attempt's cleanup obligation; a sandbox may have been recorded (C50)."""


@attrs.frozen(kw_only=True)
class CollectSandbox:
    """Try, bounded and best effort, to delete the attempt's sandbox now."""


@attrs.frozen(kw_only=True)
class SalvageTerminal:
    """Ask `salvage.decide_salvage` with these flags and carry it out (C20).

    Whatever it wrote, the list goes on, so that the original error is not lost; it ends here
    only when the attempt is kept (`KeepFinalAttempt`) or not ours (`StopObserved`).
    """

    failure: Failure
    detached_recovery: bool
    force: bool


@attrs.frozen(kw_only=True)
class FailEngineAttempt:
    """Fail this engine attempt with the original error."""

    reason: str


@attrs.frozen(kw_only=True)
class ReleaseAttempt:
    """Give back what this execution holds in memory and in the store (C60); always last."""


Action: TypeAlias = (
    PassSignal
    | SettleObserved
    | AskRun
    | AskCapacity
    | AskPreCode
    | AskOutage
    | AskStore
    | WithholdCleanup
    | DeferHandoff
    | PersistCleanup
    | CollectSandbox
    | SalvageTerminal
    | FailEngineAttempt
    | ReleaseAttempt
)


@attrs.frozen(kw_only=True)
class Route:
    """What to do, in order. The last action is always `ReleaseAttempt`, and it alone is certain."""

    actions: tuple[Action, ...]
    why: Why


def situation_of(*, runner_started_here: bool, detached_wake: bool) -> Situation:
    """Name the situation. A runner started by this very execution weighs more than the wake."""
    if runner_started_here:
        return Situation.HANDOFF
    return Situation.WAKE if detached_wake else Situation.FRESH


def route_error(failure: Failure, situation: Situation, *, handoff_delay: timedelta) -> Route:
    """Route one error. The tests come in the precedence of C19, engine signals first (Q12)."""
    if isinstance(failure, EngineSignal):
        return _route("engine_signal", failure, situation, PassSignal(signal=failure))
    if isinstance(failure, FenceLostFailure):
        return _route("fence_lost", failure, situation, SettleObserved())
    if situation is Situation.HANDOFF:
        return _after_handoff(failure, handoff_delay)
    if isinstance(failure, CapacityFailure):
        ask = AskCapacity(failure=failure, fresh_attempt=situation is Situation.FRESH)
        return _route("capacity", failure, situation, ask)
    if situation is Situation.WAKE:
        return _on_wake(failure)
    return _on_fresh(failure)


def _after_handoff(failure: Failure, delay: timedelta) -> Route:
    if isinstance(failure, TokenOutage):
        return _route(
            "handoff_outage",
            failure,
            Situation.HANDOFF,
            WithholdCleanup(),
            AskOutage(failure=failure, detached=True),
            *_last_words(failure, detached_recovery=True, force=True),
        )
    if isinstance(failure, CapacityFailure):
        return _route(
            "handoff_capacity",
            failure,
            Situation.HANDOFF,
            WithholdCleanup(),
            AskCapacity(failure=failure, fresh_attempt=False),
        )
    reason = f"the detached runner keeps execution after handoff failure: {failure.reason}"
    defer = DeferHandoff(delay=delay, reason=reason)
    return _route("handoff_deferred", failure, Situation.HANDOFF, WithholdCleanup(), defer)


def _on_wake(failure: Failure) -> Route:
    outage = isinstance(failure, TokenOutage)
    store: tuple[Action, ...] = ()
    if isinstance(failure, RetryableFailure | UnknownOutcome):
        store = (AskStore(failure=failure),)
    return _route(
        "wake_outage" if outage else "wake_store_away" if store else "wake_failed",
        failure,
        Situation.WAKE,
        *_questions(failure, detached=True),
        *store,
        *_last_words(failure, detached_recovery=True, force=outage),
    )


def _on_fresh(failure: Failure) -> Route:
    outage = isinstance(failure, TokenOutage)
    pre_code = (AskPreCode(failure=failure),) if isinstance(failure, PreCodeFailure) else ()
    return _route(
        "fresh_outage" if outage else "fresh_pre_code" if pre_code else "fresh_failed",
        failure,
        Situation.FRESH,
        *pre_code,
        *_questions(failure, detached=False),
        PersistCleanup(),
        CollectSandbox(),
        *_last_words(failure, detached_recovery=False, force=outage),
    )


def _questions(failure: Failure, *, detached: bool) -> tuple[Action, ...]:
    if isinstance(failure, TokenOutage):
        return (AskOutage(failure=failure, detached=detached),)
    return (AskRun(),) if isinstance(failure, UnknownOutcome) else ()


def _last_words(failure: Failure, *, detached_recovery: bool, force: bool) -> tuple[Action, ...]:
    return (
        SalvageTerminal(failure=failure, detached_recovery=detached_recovery, force=force),
        FailEngineAttempt(reason=failure.reason),
    )


def _route(rule: str, failure: Failure, situation: Situation, *actions: Action) -> Route:
    evidence: JsonObject = {
        "failure": name_of(failure),
        "reason": failure.reason,
        "situation": situation.value,
    }
    return Route(actions=(*actions, ReleaseAttempt()), why=Why(f"error_routing.{rule}", evidence))
