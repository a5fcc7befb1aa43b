"""How a lane stands: served, draining, adopted, stranded or retired (C56, C57, F53, F54).

Everything is told from what workers said of themselves lately and from the open work, so a lane
whose workers vanished stands as what it is without anybody declaring it.
"""

import enum
from datetime import datetime, timedelta

import attrs

from deepline.core.instants import iso
from deepline.core.model.lane import LaneState, LaneWorker
from deepline.core.model.why import Why
from deepline.core.queues import BASE_QUEUE


class Standing(enum.StrEnum):
    """Who looks after a lane."""

    SERVED = "served"
    """Workers of its own serve it."""
    DRAINING = "draining"
    """Workers of its own serve it and leave once it holds nothing."""
    ADOPTED = "adopted"
    """Only workers of other lanes serve it."""
    STRANDED = "stranded"
    """It holds work and nobody serves it."""
    RETIRED = "retired"
    """It holds nothing and nobody serves it."""


@attrs.frozen(kw_only=True)
class Prunable:
    """Nothing speaks against removing the lane."""

    why: Why


@attrs.frozen(kw_only=True)
class Kept:
    """The lane stays; `reason` says why, in words."""

    reason: str
    why: Why


PruneDecision = Prunable | Kept


def own_workers(state: LaneState, lost_after: timedelta) -> tuple[LaneWorker, ...]:
    """The lane's own workers that were seen lately."""
    return tuple(one for one in _seen_lately(state, lost_after) if not one.adopted)


def adopters(state: LaneState, lost_after: timedelta) -> tuple[LaneWorker, ...]:
    """The workers of other lanes that serve this one, seen lately."""
    return tuple(one for one in _seen_lately(state, lost_after) if one.adopted)


def is_draining(state: LaneState, lost_after: timedelta) -> bool:
    """True when an operator said so, or when all of the lane's own workers are about to leave."""
    own = own_workers(state, lost_after)
    return state.draining or (bool(own) and all(one.leaving for one in own))


def standing_of(state: LaneState, lost_after: timedelta) -> Standing:
    """Judge one lane. Total: every state has exactly one standing."""
    if own_workers(state, lost_after):
        return Standing.DRAINING if is_draining(state, lost_after) else Standing.SERVED
    if adopters(state, lost_after):
        return Standing.ADOPTED
    return Standing.STRANDED if state.open_tasks > 0 else Standing.RETIRED


def stranded_runs(state: LaneState, lost_after: timedelta) -> int:
    """How many open runs of the lane wait for somebody who is not there."""
    if standing_of(state, lost_after) is not Standing.STRANDED:
        return 0
    return max(state.open_tasks, state.queued + state.begun)


def last_activity(state: LaneState) -> datetime:
    """When the lane was made, claimed, or said to be served by a worker of its own, at last."""
    own = (one.seen_at for one in state.workers if not one.adopted)
    return max(state.created_at, state.last_claim_at or state.created_at, *own)


def may_prune(state: LaneState, *, unused_for: timedelta, lost_after: timedelta) -> PruneDecision:
    """Decide whether a lane may be removed: it is over, and for so long that none comes back.

    A lane that operators drained needs no such time. The base lane always stays.
    """
    standing = standing_of(state, lost_after)
    last = last_activity(state)
    seen = {"lane": state.lane, "standing": standing.value, "last_activity_at": iso(last)}
    if state.lane == BASE_QUEUE:
        return Kept(reason="it is the base lane", why=Why("lane_prune.base", seen))
    if standing is not Standing.RETIRED:
        return Kept(reason=f"it is {standing.value}", why=Why("lane_prune.in_use", seen))
    if not state.draining and state.read_at - last < unused_for:
        return Kept(reason="it was in use lately", why=Why("lane_prune.recent", seen))
    return Prunable(why=Why("lane_prune.over", seen))


def _seen_lately(state: LaneState, lost_after: timedelta) -> tuple[LaneWorker, ...]:
    return tuple(one for one in state.workers if state.read_at - one.seen_at < lost_after)
