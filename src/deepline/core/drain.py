"""When a worker that is to leave may leave: its lane holds nothing for it any more (C57, Q25).

One empty reading may fall between two engine attempts of a run or into the moment before a submit
is seen, so two in a row are needed.
"""

import enum
from datetime import timedelta
from typing import TypeAlias

import attrs

from deepline.core.lane_standing import adopters
from deepline.core.model.lane import LaneState
from deepline.core.model.why import Why

READINGS = 2
UNREAD = Why("drain.unread")


class DrainEnd(enum.StrEnum):
    """How a watch over a lane ended."""

    DRAINED = "drained"
    STOPPED = "stopped"


@attrs.frozen(kw_only=True)
class Drained:
    """The worker may leave."""

    why: Why


@attrs.frozen(kw_only=True)
class KeepServing:
    """Read again later; so many readings in a row found nothing left to do here."""

    readings: int
    why: Why


DrainDecision: TypeAlias = Drained | KeepServing


def next_reading(
    state: LaneState | None, *, in_hand: int, readings: int, lost_after: timedelta
) -> DrainDecision:
    """Judge one reading of the worker's own lane, after so many that found nothing.

    A lane that is not in the registry any more holds nothing. Parked runs keep a worker only as
    long as no other has adopted them; queued ones only while the adopters don't admit them.
    """
    why = _nothing_left(state, in_hand, lost_after)
    if why is None:
        return KeepServing(readings=0, why=_held(state, in_hand))
    if readings + 1 < READINGS:
        return KeepServing(readings=readings + 1, why=why)
    return Drained(why=why)


def _nothing_left(state: LaneState | None, in_hand: int, lost_after: timedelta) -> Why | None:
    if in_hand > 0:
        return None
    if state is None or state.open_tasks == 0:
        return Why("drain.empty")
    takers = adopters(state, lost_after)
    if takers and (state.draining or state.queued == 0):
        return Why(
            "drain.adopted",
            {"open_tasks": state.open_tasks, "adopters": [one.worker for one in takers]},
        )
    return None


def _held(state: LaneState | None, in_hand: int) -> Why:
    held = 0 if state is None else state.open_tasks
    return Why("drain.holds_work", {"open_tasks": held, "in_hand": in_hand})
