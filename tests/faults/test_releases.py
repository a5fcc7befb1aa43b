"""Releases that leave, and releases that come and come, on the real store (F53, F54, F55)."""

import os
from datetime import timedelta

import pytest
import trio

from deepline.core.lane_standing import Kept, Prunable, Standing, may_prune, standing_of
from deepline.core.lane_standing import stranded_runs as stranded
from deepline.core.limits import Limits
from deepline.core.model.heartbeat import NoFence
from deepline.core.model.identity import AttemptKey, Lane, ReleaseId, RunId
from deepline.core.model.lane import LaneState
from deepline.core.model.result import Completed
from deepline.core.queues import lane_of_release
from deepline.ports.lanes import LaneBeat, ServedLane
from deepline.ports.terminals import Committed
from deepline.runtime.census_taking import BUDGET
from deepline.testing import Scene, Stores
from deepline.testing.scene import LANE, LEASE, RELEASE, WHY, expect
from tests.contracts.postgres_stores import postgres_stores

pytestmark = pytest.mark.postgres

LOST = Limits().lane_worker_lost
UNUSED = timedelta(days=7)
RELEASES = 500 if "DEEPLINE_SOAK" in os.environ else 60
DEPLOYERS = 4


async def state_of(stores: Stores) -> LaneState:
    """The lane of the release that leaves."""
    state = await stores.lanes.read(LANE)
    assert state is not None
    return state


async def served(scene: Scene) -> None:
    """A worker of the release says that it is there."""
    beat = LaneBeat(worker="worker", release_id=RELEASE, served=(ServedLane(LANE),))
    await scene.stores.lanes.beat(beat)


async def end(scene: Scene, run: str) -> None:
    """The runner hands its result in, and a worker that nobody has seen before settles it."""
    done = Completed(output="done")
    await scene.stores.terminals.offer(AttemptKey(RunId(run), 1), done, NoFence(), WHY)
    expect(await scene.commit(await scene.wake(), from_waiting=True), Committed)


async def test_fault_F53_runs_are_parked_across_an_upgrade(migrated_database: str) -> None:
    """Once their workers are gone they stand as stranded, and whoever takes the lane ends them."""
    async with postgres_stores(migrated_database) as stores:
        scene = await Scene.on(stores)
        await served(scene)
        await scene.parked("run-parked")
        before = await state_of(stores)
        await stores.advance(LOST + timedelta(seconds=1))
        left = await state_of(stores)
        await end(scene, "run-parked")
        ended = await state_of(stores)

    assert [standing_of(one, LOST) for one in (before, left, ended)] == [
        Standing.SERVED,
        Standing.STRANDED,
        Standing.RETIRED,
    ]
    assert [stranded(one, LOST) for one in (before, left, ended)] == [0, 1, 0]
    assert left.release_id == RELEASE


async def test_fault_F54_a_release_is_scaled_away_before_its_runs_are_done(
    migrated_database: str,
) -> None:
    """Though drained and without workers it is not over while a run of it is open."""
    async with postgres_stores(migrated_database) as stores:
        scene = await Scene.on(stores)
        await served(scene)
        await scene.parked("run-open")
        assert await stores.lanes.drain(LANE, draining=True)
        await stores.lanes.left("worker")
        open_still = await state_of(stores)
        refused = await stores.lanes.prune(LANE, lost_after=LOST)
        await end(scene, "run-open")
        over = await state_of(stores)
        removed = await stores.lanes.prune(LANE, lost_after=LOST)

    assert (open_still.open_tasks, over.open_tasks) == (1, 0)
    assert isinstance(may_prune(open_still, unused_for=UNUSED, lost_after=LOST), Kept)
    assert isinstance(may_prune(over, unused_for=UNUSED, lost_after=LOST), Prunable)
    assert (refused, removed) == (False, True)


@pytest.mark.slow
async def test_fault_F55_releases_come_and_come(migrated_database: str) -> None:
    """Each is registered, the newest is served as ever, all are counted in time, old ones go."""
    releases = [ReleaseId(f"release-{number:03}") for number in range(RELEASES)]
    async with postgres_stores(migrated_database) as stores:

        async def deploy(some: list[ReleaseId]) -> None:
            for release in some:
                await stores.admission.ensure_lane(lane_of_release(release), release)

        async with trio.open_nursery() as nursery:
            for place in range(DEPLOYERS):
                nursery.start_soon(deploy, releases[place::DEPLOYERS])
        scene = await Scene.on(stores)
        with trio.fail_after(BUDGET.total_seconds()):
            await scene.commit(await scene.started())
        with trio.fail_after(BUDGET.total_seconds()):
            figures = await stores.census.take(silent_after=LEASE, stuck_after=20)
            known = await stores.lanes.all()
        old = [lane_of_release(release) for release in releases[:20]]
        gone = [await stores.lanes.prune(Lane(lane), lost_after=LOST) for lane in old]

    assert len(figures.lanes) == len(known) == RELEASES + 1
    assert all(gone)
