"""Which lanes a worker serves beside its own, so that no run waits for absent workers (C56, Q43).

A lane is adopted when it holds work and its own workers are gone for long, are about to leave, or
an operator handed it over. A lane that adopters claim from looks busy, so an adopted lane stays
adoptable until a worker of its own is back.
"""

import enum
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta

import attrs

from deepline.core.instants import iso
from deepline.core.lane_standing import adopters, is_draining, last_activity, own_workers
from deepline.core.model.identity import Lane, ReleaseId
from deepline.core.model.lane import LaneState
from deepline.core.model.why import Why

_NEVER = datetime.max.replace(tzinfo=UTC)


class AdoptionPolicy(enum.StrEnum):
    """What workers take over of a lane that its own workers left without a word.

    Unless it is off they take everything of a lane that an operator drained or handed over.
    """

    OFF = "off"
    """Nothing of any lane."""
    BEGUN = "begun"
    """Runs that had begun; those never admitted wait for the lane's own workers."""
    ALL = "all"
    """Every open run."""


@attrs.frozen(kw_only=True)
class AdoptionSettings:
    """`quiet_after` without activity a lane counts as left; at most `lanes_max` are adopted."""

    policy: AdoptionPolicy = AdoptionPolicy.BEGUN
    quiet_after: timedelta = timedelta(minutes=5)
    lost_after: timedelta = timedelta(seconds=45)
    lanes_max: int = 8


@attrs.frozen(kw_only=True)
class Adoption:
    """Serve this lane too; `admits` says whether its queued runs may begin here."""

    lane: Lane
    release_id: ReleaseId | None
    admits: bool
    why: Why


@attrs.frozen(kw_only=True)
class Leave:
    """Leave this lane alone."""

    why: Why


@attrs.frozen(kw_only=True)
class Plan:
    """What one pass changes, each in this order: first `detach`, then `attach`."""

    detach: tuple[Lane, ...]
    attach: tuple[Adoption, ...]


def judge(state: LaneState, own: Lane, settings: AdoptionSettings) -> Adoption | Leave:
    """Decide about one lane. Total: the first row that applies decides."""
    seen = {
        "lane": state.lane,
        "release_id": state.release_id,
        "open_tasks": state.open_tasks,
        "last_activity_at": iso(last_activity(state)),
    }
    if state.lane == own:
        return Leave(why=Why("lane_adoption.own", seen))
    if settings.policy is AdoptionPolicy.OFF:
        return Leave(why=Why("lane_adoption.off", seen))
    if state.open_tasks == 0:
        return Leave(why=Why("lane_adoption.holds_nothing", seen))
    lost_after = settings.lost_after
    serving = own_workers(state, lost_after)
    if serving and not is_draining(state, lost_after):
        return Leave(why=Why("lane_adoption.served", seen))
    if state.draining:
        return _adopt(state, Why("lane_adoption.draining", seen), admits=True)
    if state.handed_over:
        return _adopt(state, Why("lane_adoption.handed_over", seen), admits=True)
    if not serving and not _is_left(state, settings):
        return Leave(why=Why("lane_adoption.not_quiet_yet", seen))
    if settings.policy is AdoptionPolicy.BEGUN and state.begun == 0:
        return Leave(why=Why("lane_adoption.nothing_begun", seen))
    rule = "lane_adoption.workers_leaving" if serving else "lane_adoption.quiet"
    return _adopt(state, Why(rule, seen), admits=settings.policy is AdoptionPolicy.ALL)


def wanted(
    states: Iterable[LaneState], own: Lane, settings: AdoptionSettings
) -> tuple[Adoption, ...]:
    """The lanes to adopt: those whose work is oldest first, then by release, at most so many."""
    found = [(state, judge(state, own, settings)) for state in states]
    adoptions = [(state, one) for state, one in found if isinstance(one, Adoption)]
    adoptions.sort(key=lambda pair: _order(pair[0]))
    return tuple(one for _, one in adoptions[: settings.lanes_max])


def plan(
    *,
    attached: Collection[Lane],
    draining: Collection[Lane],
    wanted: Sequence[Adoption],
    lanes_max: int,
) -> Plan:
    """What to change, so that attached and draining together never exceed `lanes_max` (I48)."""
    keep = {one.lane for one in wanted}
    detach = tuple(lane for lane in attached if lane not in keep)
    busy = {*attached, *draining}
    room = max(0, lanes_max - len(busy))
    attach = tuple(one for one in wanted if one.lane not in busy)[:room]
    return Plan(detach=detach, attach=attach)


def _is_left(state: LaneState, settings: AdoptionSettings) -> bool:
    if adopters(state, settings.lost_after):
        return True
    return state.read_at - last_activity(state) >= settings.quiet_after


def _adopt(state: LaneState, why: Why, *, admits: bool) -> Adoption:
    return Adoption(lane=state.lane, release_id=state.release_id, admits=admits, why=why)


def _order(state: LaneState) -> tuple[datetime, str, str]:
    return (state.oldest_open_at or _NEVER, state.release_id or "", state.lane)
