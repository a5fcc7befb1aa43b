"""Lanes as a table, as JSON, and what to do about those that nobody serves (C56, C57, F53)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from deepline.cli.people.run_lists import columns
from deepline.core.explain.phrases import ago
from deepline.core.instants import iso
from deepline.core.lane_standing import Standing, standing_of, stranded_runs
from deepline.core.model.json_value import JsonObject
from deepline.core.model.lane import LaneState

WORKERS_SHOWN = 3
_HEADER = ("RELEASE", "STANDING", "QUEUED", "RUNNING", "PARKED", "LAST SEEN", "SERVED BY")


def name_of(state: LaneState) -> str:
    """What people call a lane: its release, or the lane itself where there is none."""
    return state.release_id or state.lane


def holds(state: LaneState) -> str:
    """What a lane holds, in words."""
    return f"{state.queued} queued, {state.running} running, {state.parked} parked"


def last_seen(state: LaneState) -> datetime | None:
    """When a worker said or showed last that it serves the lane."""
    told = [one.seen_at for one in state.workers]
    return max([*told, *([state.last_claim_at] if state.last_claim_at else [])], default=None)


def lane_table(
    states: Sequence[LaneState], *, lost_after: timedelta, with_retired: bool
) -> list[str]:
    """One line a lane, oldest first, and below it what needs somebody."""
    standings = [(state, standing_of(state, lost_after)) for state in states]
    shown = [pair for pair in standings if with_retired or pair[1] is not Standing.RETIRED]
    hidden = len(standings) - len(shown)
    if not standings:
        return ["no lanes; a worker or a gateway makes the lane of its release when it starts"]
    lines = columns([_HEADER, *(_line(state, standing) for state, standing in shown)])
    if hidden:
        more = (
            f"{hidden} more hold nothing and nobody serves them: --all shows them, "
            "`deepline lanes prune` removes those that are over"
        )
        lines += ["", more]
    return [*lines, *_advice(states, lost_after)]


def lane_json(state: LaneState, *, lost_after: timedelta) -> JsonObject:
    """One lane for programs; instants are ISO text in UTC."""
    seen_at = last_seen(state)
    return {
        "releaseId": state.release_id,
        "lane": state.lane,
        "standing": standing_of(state, lost_after).value,
        "queued": state.queued,
        "running": state.running,
        "parked": state.parked,
        "openTasks": state.open_tasks,
        "stranded": stranded_runs(state, lost_after),
        "oldestOpenAt": None if state.oldest_open_at is None else iso(state.oldest_open_at),
        "lastSeenAt": None if seen_at is None else iso(seen_at),
        "draining": state.draining,
        "handedOver": state.handed_over,
        "workers": [
            {
                "worker": one.worker,
                "releaseId": one.release_id,
                "adopted": one.adopted,
                "leaving": one.leaving,
                "seenAt": iso(one.seen_at),
                "present": state.read_at - one.seen_at < lost_after,
            }
            for one in state.workers
        ],
    }


def _line(state: LaneState, standing: Standing) -> tuple[str, ...]:
    seen_at = last_seen(state)
    return (
        name_of(state),
        standing.value,
        str(state.queued),
        str(state.running),
        str(state.parked),
        "never" if seen_at is None else ago(seen_at, state.read_at),
        _served_by(state),
    )


def _served_by(state: LaneState) -> str:
    named = [
        f"{one.worker} (of {one.release_id or 'the base lane'})" if one.adopted else one.worker
        for one in state.workers[:WORKERS_SHOWN]
    ]
    more = len(state.workers) - len(named)
    return ", ".join([*named, *([f"{more} more"] if more else [])])


def _advice(states: Sequence[LaneState], lost_after: timedelta) -> list[str]:
    lines: list[str] = []
    for state in states:
        stranded, name = stranded_runs(state, lost_after), name_of(state)
        if stranded:
            lines += [
                "",
                f"{stranded} runs of {name} are stranded: nobody serves its lane.",
                f"  Start a worker of it, or let others take them: `deepline lanes adopt {name}`",
            ]
    return lines
