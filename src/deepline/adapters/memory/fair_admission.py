"""Which held-back runs may enter the engine's due set, fairly by organisation (Q38).

A held-back run ranks by its organisation's runs in flight plus its place in the organisation's
own line, then by age. No more are let in than the claim has room for beside what is due already,
so a backlog never piles up in front of runs that were resumed or deferred.
"""

import heapq
from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from deepline.adapters.memory.rows import RunRow
from deepline.adapters.memory.world import World
from deepline.core.model.identity import Lane, OrgId, RunId

Ranked = tuple[int, datetime, RunId]


def admit(world: World, lane: Lane, *, quantity: int, org_limit: int) -> None:
    """Let up to `quantity` held-back runs of the lane in, less what is due already."""
    now = world.now()
    room = quantity - world.queue.due_count(lane, now, at_most=quantity)
    if room <= 0:
        return
    for _, _, run_id in list(islice(_in_order(world, lane, org_limit), room)):
        _let_in(world, world.runs[run_id], now)


def could_admit(world: World, lane: Lane, org_limit: int | None) -> bool:
    """Could an admission let anything in now? A lane never claimed has no limit yet."""
    return any(
        org_limit is None or world.in_flight.get((lane, org_id), 0) < org_limit
        for org_id in world.held_back.get(lane, ())
    )


def _in_order(world: World, lane: Lane, org_limit: int) -> Iterator[Ranked]:
    lines = (_line(world, lane, org, org_limit) for org in world.held_back.get(lane, ()))
    return heapq.merge(*lines)


def _line(world: World, lane: Lane, org_id: OrgId, org_limit: int) -> Iterator[Ranked]:
    in_flight = world.in_flight.get((lane, org_id), 0)
    waiting = islice(world.held_back[lane][org_id], max(0, org_limit - in_flight))
    for rank, run_id in enumerate(waiting, start=in_flight + 1):
        yield rank, world.runs[run_id].created_at, run_id


def _let_in(world: World, run: RunRow, now: datetime) -> None:
    line = world.held_back[run.lane][run.org_id]
    del line[run.run_id]
    if not line:
        del world.held_back[run.lane][run.org_id]
    run.admitted_at = now
    flying = (run.lane, run.org_id)
    world.in_flight[flying] = world.in_flight.get(flying, 0) + 1
    task = world.queue.tasks.get(run.task_id or "")
    if task is not None:
        world.queue.make_due(task.current, now)
