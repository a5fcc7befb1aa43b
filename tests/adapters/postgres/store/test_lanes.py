"""Lanes on Postgres: pruning leaves nothing, and races with submits lose nothing (F55)."""

import trio

from deepline.core.lane_standing import Prunable, may_prune
from deepline.core.limits import Limits
from deepline.core.model.identity import Lane, ReleaseId
from deepline.core.queues import lane_of_release
from tests.support.store import StoreBench, submission

RELEASES = 20
LOST = Limits().lane_worker_lost
_TABLES = "select count(*) from pg_tables where schemaname = 'absurd' and tablename like %s"


def lane_of(number: int) -> Lane:
    """The lane of one release of many."""
    return lane_of_release(ReleaseId(f"release-{number}"))


async def test_releases_in_a_row_leave_no_trace(bench: StoreBench) -> None:
    """Each registers, is drained and pruned; no table of a queue of theirs is left (F55)."""
    lanes = bench.store.lanes
    for number in range(RELEASES):
        await bench.store.admission.ensure_lane(lane_of(number), f"release-{number}")
        await lanes.drain(lane_of(number), draining=True)
    before = await bench.row(_TABLES, "%runs_%")

    for state in await lanes.all():
        decision = may_prune(state, unused_for=LOST, lost_after=LOST)
        if isinstance(decision, Prunable):
            assert await lanes.prune(state.lane, lost_after=LOST)

    assert before == 5 * RELEASES
    assert await bench.row(_TABLES, "%runs_%") == 0
    assert [state.lane for state in await lanes.all()] == ["runs"]


async def test_a_submit_beside_a_prune_is_not_lost(bench: StoreBench) -> None:
    """Either the lane stays with its run, or it is made again for it."""
    lane = lane_of(1)
    await bench.store.admission.ensure_lane(lane, "release-1")

    async def submit(number: int) -> None:
        await bench.store.admission.submit([submission(f"run-{number}", lane=lane)])

    async def prune() -> None:
        await bench.store.lanes.prune(lane, lost_after=LOST)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(submit, number)
        for _ in range(2):
            nursery.start_soon(prune)

    state = await bench.store.lanes.read(lane)
    assert state is not None
    assert (state.open_tasks, state.queued) == (5, 5)
