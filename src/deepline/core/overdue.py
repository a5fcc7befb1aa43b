"""Ending runners past their ceiling, and the pace at which it is done (C37, C38, Q20, I09).

A candidate was claimed by the store before it comes here, so whether its ceiling has passed is
decided, by the store's own clock. What is left is how it ends: with its own terminal if one is
stored, else with the verdict of the ceiling.
"""

from datetime import datetime, timedelta
from typing import TypeAlias

import attrs

from deepline.core.arbitration import settle_pushed
from deepline.core.instants import iso, length_ms
from deepline.core.limits import Limits
from deepline.core.model.attempt import Attempt
from deepline.core.model.identity import AttemptKey
from deepline.core.model.json_value import JsonObject
from deepline.core.model.why import Why
from deepline.core.recovery import LIVE, Counts, EndOutside, Skip, end_with, own_suspension
from deepline.core.silence import heartbeat_timeout
from deepline.core.verdicts import Observation, ceiling_verdict, expiry_report

SHORTEST_PAUSE = timedelta(milliseconds=1)


@attrs.frozen(kw_only=True)
class EndOverdue:
    """End it. `report` is the expiry event to log if the ceiling's verdict is what was committed.

    It is `None` for a terminal of the runner's own.
    """

    end: EndOutside
    report: JsonObject | None


@attrs.frozen(kw_only=True)
class NextPass:
    """How long to wait before the next pass, and how many passes in a row recovered nothing."""

    pause: timedelta
    barren: int


OverdueDecision: TypeAlias = EndOverdue | Skip


def settle_overdue(
    observed_at: datetime, attempt: Attempt | None, limits: Limits, *, launch_found: bool
) -> OverdueDecision:
    """Decide about one claimed candidate, as just read. `observed_at` is for the words alone."""
    if attempt is None:
        return Skip(why=Why("overdue.attempt_missing"))
    if attempt.status not in LIVE:
        return Skip(why=Why("overdue.attempt_over", {"status": attempt.status.value}))
    if not launch_found:
        return Skip(why=Why("overdue.launch_missing"))
    if attempt.runner_terminal is not None:
        pushed = settle_pushed(attempt.runner_terminal)
        return EndOverdue(end=end_with(attempt, pushed.result, pushed.why), report=None)
    if attempt.pending is not None:
        return Skip(why=Why("overdue.suspended_meanwhile"))
    own = own_suspension(attempt.ref.attempt, attempt.suspension)
    if own is None:
        return Skip(why=Why("overdue.unreadable_suspension"))
    observation = Observation(
        key=AttemptKey(attempt.ref.run_id, attempt.ref.attempt),
        suspension=own,
        liveness=attempt.liveness,
        observed_at=max(observed_at, own.ceiling_at),
        heartbeat_timeout=heartbeat_timeout(own, limits),
    )
    why = Why("overdue.ceiling", {"ceiling_at": iso(own.ceiling_at)})
    return EndOverdue(
        end=end_with(attempt, ceiling_verdict(observation), why), report=expiry_report(observation)
    )


def next_pass(counts: Counts | None, *, barren: int, interval: timedelta) -> NextPass:
    """Pace the passes: again at once while there is progress, else one interval (C38.2).

    `counts` is `None` for a pass that failed. Skips alone are no progress: two such passes in a
    row wait (Q20).
    """
    if counts is not None and counts.recovered > 0:
        return NextPass(pause=timedelta(0), barren=0)
    waiting = NextPass(pause=whole_interval(interval), barren=barren + 1)
    if counts is None or counts.settled == 0 or barren > 0:
        return waiting
    return NextPass(pause=timedelta(0), barren=barren + 1)


def whole_interval(interval: timedelta) -> timedelta:
    """The interval in whole milliseconds, at least one (C38.1)."""
    return max(SHORTEST_PAUSE, length_ms(interval) * SHORTEST_PAUSE)
