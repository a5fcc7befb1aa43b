"""Lanes on Postgres: pruning leaves nothing, and races with submits lose nothing (F55)."""

import os

import pytest
import trio

from deepline.core.lane_standing import Prunable, may_prune
from deepline.core.limits import Limits
from deepline.core.model.identity import Lane, ReleaseId
from deepline.core.queues import lane_of_release
from tests.support.store import StoreBench, submission

SOON_S = 5.0
ONLY_LONG = pytest.mark.skipif(
    "DEEPLINE_CHAOS_SEED" not in os.environ, reason="`make soak-tests` runs it"
)
LOST = Limits().lane_worker_lost
_TABLES = "select count(*) from pg_tables where schemaname = 'absurd' and tablename like %s"


def lane_of(number: int) -> Lane:
    """The lane of one release of many."""
    return lane_of_release(ReleaseId(f"release-{number}"))


@pytest.mark.parametrize(
    "releases",
    [
        pytest.param(20, id="20"),
        pytest.param(500, id="500", marks=[pytest.mark.slow, ONLY_LONG]),
    ],
)
async def test_fault_F55_releases_in_a_row_leave_no_trace(releases: int, bench: StoreBench) -> None:
    """Each registers, is drained and pruned; no table of a queue of theirs is left."""
    lanes = bench.store.lanes
    for number in range(releases):
        with trio.fail_after(SOON_S):
            await bench.store.admission.ensure_lane(lane_of(number), f"release-{number}")
        await lanes.drain(lane_of(number), draining=True)
    before = await bench.row(_TABLES, "%runs_%")
    with trio.fail_after(SOON_S):
        states = await lanes.all()

    for state in states:
        decision = may_prune(state, unused_for=LOST, lost_after=LOST)
        if isinstance(decision, Prunable):
            assert await lanes.prune(state.lane, lost_after=LOST)

    assert before == 5 * releases
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
