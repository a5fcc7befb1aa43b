"""A platform dependency failed before play code: wait for it within a deadline (C53, Q49, I15).

Nothing has happened yet, so nothing is replayed by trying again. What is persisted is the
dependency and a coarse cause; what a provider really said goes to the log alone.
"""

import math
from datetime import datetime, timedelta
from typing import TypeAlias

import attrs

from deepline.core.failures import Failure, PreCodeFailure, name_of
from deepline.core.instants import iso
from deepline.core.labels import is_label
from deepline.core.model.why import Why

SANDBOX_ACQUISITION = "sandbox_acquisition"
"""A provider that makes no sandbox."""
SCHEDULER_ADMISSION = "scheduler_admission"
"""The store's leave to hold a sandbox: the reservation before its create."""
RUNTIME_INITIALIZATION = "runtime_initialization"
"""What the store must know before a runner is started: the token's end of an outage, the bind."""
UNNAMED = "unnamed"
_SECOND = timedelta(seconds=1)


@attrs.frozen(kw_only=True)
class PreCodeSchedule:
    """Waits after the first, second … failure, the last one repeated, until `longest` is over.

    Raises `ValueError` when built without a wait.
    """

    delays: tuple[timedelta, ...] = (5 * _SECOND, 10 * _SECOND, 20 * _SECOND, 30 * _SECOND)
    longest: timedelta = timedelta(minutes=10)

    def __attrs_post_init__(self) -> None:
        """Refuse a schedule that never waits."""
        if not self.delays:
            raise ValueError("a schedule needs at least one delay")


@attrs.frozen(kw_only=True)
class PreCodeDeferred:
    """Retire the fresh attempt, queue the run again, due after `delay`. `detail` is log only."""

    dependency: str
    cause: str
    first_failed_at: datetime
    deadline: datetime
    delay: timedelta
    reason: str
    detail: str | None
    provider_text: str | None
    why: Why


@attrs.frozen(kw_only=True)
class PreCodeExhausted:
    """The deadline has passed: this is an ordinary failure now."""

    deadline: datetime
    why: Why


@attrs.frozen(kw_only=True)
class NotPreCode:
    """Not a failure to be waited out here: another class, or play code may have started."""

    why: Why


PreCodeDecision: TypeAlias = PreCodeDeferred | PreCodeExhausted | NotPreCode


def decide_pre_code(
    failure: Failure,
    *,
    play_may_have_started: bool,
    first_failed_at: datetime | None,
    deferrals: int,
    now: datetime,
    schedule: PreCodeSchedule,
) -> PreCodeDecision:
    """Decide whether to wait for a dependency.

    `first_failed_at` is `None` at the first failure of this run's dependency, `deferrals` counts
    the waits so far. A wait never reaches past the deadline by a second or more.
    """
    if not isinstance(failure, PreCodeFailure):
        return NotPreCode(why=Why("pre_code.other_failure", {"failure": name_of(failure)}))
    if play_may_have_started:
        return NotPreCode(why=Why("pre_code.play_may_have_started"))
    first = now if first_failed_at is None else first_failed_at
    deadline = first + schedule.longest
    dependency, cause = _named(failure.dependency), _named(failure.cause)
    why_evidence = {"dependency": dependency, "cause": cause, "deadline": iso(deadline)}
    if now >= deadline:
        return PreCodeExhausted(deadline=deadline, why=Why("pre_code.exhausted", why_evidence))
    step = min(max(deferrals, 0), len(schedule.delays) - 1)
    remaining = math.ceil((deadline - now) / _SECOND) * _SECOND
    return PreCodeDeferred(
        dependency=dependency,
        cause=cause,
        first_failed_at=first,
        deadline=deadline,
        delay=min(schedule.delays[step], remaining),
        reason=f"waiting for {dependency} ({cause})",
        detail=failure.detail,
        provider_text=failure.provider_text,
        why=Why("pre_code.deferred", why_evidence),
    )


def _named(text: str) -> str:
    return text if is_label(text) else UNNAMED
