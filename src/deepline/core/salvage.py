"""The last engine attempt is dying: write the failed terminal, leave no run open (C20, Q13).

The write is fenced and, for a detached wake, prefers a terminal that the runner stored itself.
The error that caused it is never lost: whatever happens here, the caller fails with it.
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
from deepline.core.model.result import Failed
from deepline.core.model.run import RunStatus
from deepline.core.model.why import Why

WAITS = (timedelta(milliseconds=250), timedelta(seconds=1), timedelta(seconds=4))
"""How long to wait before each further try after the first write failed."""
LONGEST_CAPACITY_WAIT = timedelta(seconds=5)


@attrs.frozen(kw_only=True)
class Salvage:
    """Commit `result` under the fence.

    With `detached_recovery` the write accepts a waiting attempt and takes it to running under
    its own fence first, and a runner terminal stored on the attempt wins over `result`.
    """

    result: Failed
    detached_recovery: bool
    why: Why


@attrs.frozen(kw_only=True)
class NoSalvage:
    """Nothing to write: the engine will try again, or it owns the run's rest."""

    why: Why


@attrs.frozen(kw_only=True)
class SalvageImpossible:
    """Nobody knows which attempt is the last: fail with `message`, caused by the original."""

    message: str
    why: Why


SalvageDecision: TypeAlias = Salvage | NoSalvage | SalvageImpossible


@attrs.frozen(kw_only=True)
class TryAgain:
    """Wait `delay`, ask `before_retry`, then write again."""

    delay: timedelta
    why: Why


@attrs.frozen(kw_only=True)
class StopObserved:
    """Another hand ended the run or holds it: stop quietly and settle as observed (C27)."""

    why: Why


@attrs.frozen(kw_only=True)
class KeepFinalAttempt:
    """The store may answer later: put the engine run off so that this last attempt is kept."""

    delay: timedelta
    reason: str
    why: Why


@attrs.frozen(kw_only=True)
class SalvageFailed:
    """Give up, log it, and fail with the original error."""

    reason: str
    why: Why


RetryDecision: TypeAlias = TryAgain | StopObserved | KeepFinalAttempt | SalvageFailed
BeforeRetry: TypeAlias = TryAgain | StopObserved


def decide_salvage(
    failure: Failure,
    *,
    engine_attempt: int,
    max_engine_attempts: int | None,
    force: bool,
    detached_recovery: bool,
) -> SalvageDecision:
    """Decide whether the failed terminal is due, and what it says.

    `force` means that a wall-clock bound was exhausted, which counts on any engine attempt.
    """
    evidence: JsonObject = {
        "failure": name_of(failure),
        "reason": failure.reason,
        "engine_attempt": engine_attempt,
        "max_engine_attempts": max_engine_attempts,
        "force": force,
        "detached_recovery": detached_recovery,
    }
    if isinstance(failure, EngineSignal):
        return NoSalvage(why=Why("salvage.engine_signal", evidence))
    if max_engine_attempts is None or max_engine_attempts < 1:
        return SalvageImpossible(
            message="the engine does not say how many attempts this run has, so none is the last",
            why=Why("salvage.attempts_unknown", evidence),
        )
    of_attempts = f"{engine_attempt}/{max_engine_attempts}"
    if engine_attempt >= max_engine_attempts:
        rule = "salvage.final_attempt"
        text = f"The play-run task failed on its final engine attempt ({of_attempts}): "
    elif force:
        rule = "salvage.forced"
        text = f"The executor-token outage bound was exhausted on engine attempt {of_attempts}: "
    else:
        return NoSalvage(why=Why("salvage.attempts_left", evidence))
    return Salvage(
        result=Failed(error=text + failure.reason),
        detached_recovery=detached_recovery,
        why=Why(rule, evidence),
    )


def after_failed_write(
    failure: Failure, *, failed_writes: int, keep_delay: timedelta
) -> RetryDecision:
    """Decide after a write of the terminal failed for the `failed_writes`th time (from 1)."""
    evidence: JsonObject = {
        "failure": name_of(failure),
        "reason": failure.reason,
        "failed_writes": failed_writes,
    }
    if isinstance(failure, FenceLostFailure | EngineSignal):
        return StopObserved(why=Why("salvage.not_ours", evidence))
    if failed_writes <= len(WAITS):
        delay = _wait(failure, failed_writes)
        return TryAgain(delay=delay, why=Why("salvage.try_again", evidence))
    if isinstance(failure, CapacityFailure | RetryableFailure | UnknownOutcome):
        why = Why("salvage.kept", evidence)
        return KeepFinalAttempt(delay=keep_delay, reason=failure.reason, why=why)
    return SalvageFailed(reason=failure.reason, why=Why("salvage.failed", evidence))


def before_retry(status: RunStatus | None, *, fence_held: bool) -> BeforeRetry:
    """Decide from the run as just read, after the wait; `status` is `None` when the run is gone."""
    evidence: JsonObject = {"status": None if status is None else status.value}
    if status is None or status.is_terminal:
        return StopObserved(why=Why("salvage.already_over", evidence))
    if not fence_held:
        return StopObserved(why=Why("salvage.fence_lost", evidence))
    return TryAgain(delay=timedelta(0), why=Why("salvage.still_open", evidence))


def _wait(failure: Failure, failed_writes: int) -> timedelta:
    scheduled = WAITS[max(failed_writes, 1) - 1]
    if isinstance(failure, CapacityFailure) and failure.retry_after is not None:
        return min(LONGEST_CAPACITY_WAIT, max(timedelta(0), failure.retry_after))
    return scheduled
