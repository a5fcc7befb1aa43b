"""What every `Lanes` keeps (C05, C56, C57)."""

from deepline.core.model.identity import Lane
from deepline.testing.scene import LANE, RELEASE, Scene
from deepline.testing.stores import Stores


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
        await scene.submit("run-waiting")

        lanes = {state.lane: state for state in await stores.lanes.all()}

        assert set(lanes) == {LANE, "contract_empty"}
        assert (lanes[LANE].release_id, lanes[LANE].open_tasks) == (RELEASE, 2)
        empty = lanes[Lane("contract_empty")]
        assert (empty.release_id, empty.open_tasks, empty.last_claim_at) == (None, 0, None)

    async def test_a_lane_knows_when_it_was_served(self, stores: Stores) -> None:
        """A claim, also an empty one, shows that somebody serves the lane (C56)."""
        scene = await Scene.on(stores)

        assert await scene.claim() == []

        (state,) = await stores.lanes.all()
        assert state.last_claim_at is not None
