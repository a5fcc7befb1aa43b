"""What every `Lanes` keeps (C05, C56, C57)."""

from datetime import timedelta

from deepline.core.model.identity import Lane, ReleaseId
from deepline.core.model.lane import LaneState
from deepline.ports.lanes import LaneBeat, ServedLane
from deepline.testing.scene import BACKOFF, LANE, LEASE, RELEASE, Scene
from deepline.testing.stores import Stores

NEXT_RELEASE = ReleaseId("release-2")
NEXT = Lane("contract_next")
LOST = timedelta(seconds=45)


def beat(*served: ServedLane, worker: str = "worker-1", leaving: bool = False) -> LaneBeat:
    """A beat of a worker of the next release."""
    return LaneBeat(worker=worker, release_id=NEXT_RELEASE, served=served, leaving=leaving)


async def state_of(stores: Stores, lane: Lane = LANE) -> LaneState:
    """A lane that is there."""
    state = await stores.lanes.read(lane)
    assert state is not None
    return state


class LanesContract:
    """Asks for `stores`."""

    async def test_lanes_tell_what_they_hold(self, stores: Stores) -> None:
        """A lane counts its tasks that are not over, parked and held-back ones among them (C57)."""
        scene = await Scene.on(stores)
        await stores.admission.ensure_lane(Lane("contract_empty"), None)
        await scene.submit("run-parked")
        parked = await scene.bound(await scene.fresh())
        await scene.park(parked)
        await scene.submit("run-done")
        await scene.commit(await scene.fresh())
        await scene.submit("run-begun")
        await scene.fresh()
        await scene.submit("run-waiting")

        lanes = {state.lane: state for state in await stores.lanes.all()}

        assert set(lanes) == {LANE, "contract_empty"}
        held = lanes[LANE]
        assert (held.release_id, held.open_tasks) == (RELEASE, 3)
        assert (held.queued, held.running, held.parked, held.begun) == (1, 1, 1, 2)
        assert held.oldest_open_at is not None
        assert held.oldest_open_at <= held.read_at
        empty = lanes[Lane("contract_empty")]
        assert (empty.release_id, empty.open_tasks, empty.last_claim_at) == (None, 0, None)
        assert (empty.begun, empty.oldest_open_at, tuple(empty.workers)) == (0, None, ())
        assert await stores.lanes.read(Lane("contract_unknown")) is None

    async def test_a_lane_knows_when_it_was_served(self, stores: Stores) -> None:
        """A claim, also an empty one, shows that somebody serves the lane (C56)."""
        scene = await Scene.on(stores)

        assert await scene.claim() == []

        (state,) = await stores.lanes.all()
        assert state.last_claim_at is not None

    async def test_a_claim_may_admit_nothing(self, stores: Stores) -> None:
        """With a limit of 0 it takes what had begun, and the lane has nothing else due (C56)."""
        scene = await Scene.on(stores)
        await scene.started("run-begun")
        await scene.submit("run-queued")
        await stores.advance(LEASE + BACKOFF)

        assert await scene.claim(org_limit=0) == []
        await stores.advance(BACKOFF)
        begun = await scene.claim(org_limit=0)

        assert [work.claim.run_id for work in begun] == ["run-begun"]
        due = await stores.engine.next_due(LANE)
        assert due is not None
        assert due > timedelta(0)

    async def test_workers_say_what_they_serve(self, stores: Stores) -> None:
        """A beat names just the lanes that the worker serves now; the newest beats come first."""
        await Scene.on(stores)
        await stores.admission.ensure_lane(NEXT, NEXT_RELEASE)
        await stores.lanes.beat(beat(ServedLane(NEXT), ServedLane(LANE, adopted=True)))
        await stores.advance(timedelta(seconds=10))
        await stores.lanes.beat(beat(ServedLane(LANE), worker="worker-2", leaving=True))

        newest, first = (await state_of(stores)).workers
        assert (newest.worker, newest.adopted, newest.leaving) == ("worker-2", False, True)
        assert (first.worker, first.adopted, first.leaving) == ("worker-1", True, False)
        assert first.release_id == NEXT_RELEASE
        assert first.started_at == first.seen_at < newest.seen_at

        await stores.lanes.beat(beat(ServedLane(NEXT)))
        assert [one.worker for one in (await state_of(stores)).workers] == ["worker-2"]
        [still] = (await state_of(stores, NEXT)).workers
        assert still.started_at < still.seen_at

    async def test_a_worker_that_left_is_forgotten(self, stores: Stores) -> None:
        """It may say so, and one that is silent for a day needs not."""
        await Scene.on(stores)
        await stores.lanes.beat(beat(ServedLane(LANE)))
        for _ in range(2):
            await stores.lanes.left("worker-1")
        assert tuple((await state_of(stores)).workers) == ()

        await stores.lanes.beat(beat(ServedLane(LANE)))
        await stores.advance(timedelta(days=1, seconds=1))
        await stores.lanes.beat(beat(ServedLane(NEXT), worker="worker-2"))
        assert tuple((await state_of(stores)).workers) == ()

    async def test_operators_drain_lanes(self, stores: Stores) -> None:
        """The mark stays until it is taken away; there is none on an unknown lane."""
        await Scene.on(stores)
        for draining in (True, True, False):
            assert await stores.lanes.drain(LANE, draining=draining)
            assert (await state_of(stores)).draining is draining

        assert not await stores.lanes.drain(Lane("contract_unknown"), draining=True)

    async def test_a_lane_handed_over_comes_back_to_its_own_workers(self, stores: Stores) -> None:
        """Adopters leave the mark; a worker of the lane's own takes it away, if it stays."""
        await Scene.on(stores)
        assert not await stores.lanes.hand_over(Lane("contract_unknown"))
        assert await stores.lanes.hand_over(LANE)
        await stores.lanes.beat(beat(ServedLane(NEXT), ServedLane(LANE, adopted=True)))
        await stores.lanes.beat(beat(ServedLane(LANE), worker="worker-2", leaving=True))
        assert (await state_of(stores)).handed_over

        await stores.lanes.beat(beat(ServedLane(LANE), worker="worker-2"))

        assert not (await state_of(stores)).handed_over

    async def test_a_lane_with_work_or_workers_is_not_pruned(self, stores: Stores) -> None:
        """Nothing is removed that somebody waits for or serves (F55)."""
        scene = await Scene.on(stores)
        await scene.submit("run-waiting")
        assert not await stores.lanes.prune(LANE, lost_after=LOST)
        await scene.commit(await scene.fresh())
        await stores.lanes.beat(beat(ServedLane(LANE)))
        assert not await stores.lanes.prune(LANE, lost_after=LOST)
        assert [state.lane for state in await stores.lanes.all()] == [LANE]

    async def test_a_pruned_lane_may_come_back(self, stores: Stores) -> None:
        """Whoever submits to it later makes it again, and ended runs can still be read (F55)."""
        scene = await Scene.on(stores)
        await scene.submit("run-done")
        await scene.commit(await scene.fresh())
        await stores.lanes.beat(beat(ServedLane(LANE)))
        await stores.advance(LOST + timedelta(seconds=1))

        assert await stores.lanes.prune(LANE, lost_after=LOST)

        assert not await stores.lanes.prune(LANE, lost_after=LOST)
        assert await stores.lanes.all() in ([], ())
        assert await stores.runs.evidence(scene.submission("run-done").launch.run_id, None)
        await stores.admission.ensure_lane(LANE, RELEASE)
        await scene.submit("run-again")
        assert (await state_of(stores)).open_tasks == 1
