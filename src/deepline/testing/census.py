"""What every `Census` keeps (C58, FAULTS F78)."""

from datetime import timedelta

import attrs

from deepline.core.model.identity import RunId
from deepline.ports.census import Figures, LaneFigures
from deepline.testing.scene import LANE, LEASE, PROVIDER, Scene
from deepline.testing.stores import Stores

STUCK_AFTER = 2
MINUTE = timedelta(minutes=1)
_SLACK = timedelta(seconds=30)


class CensusContract:
    """Asks for `stores`."""

    async def test_an_empty_store_has_nothing_to_do(self, stores: Stores) -> None:
        """A lane is there from the beginning, empty."""
        await Scene.on(stores)

        figures = await _taken(stores)

        assert figures.lanes == (LaneFigures(lane=LANE),)
        assert _piles(figures) == [0, 0, 0, 0, 0]
        assert (figures.silent, figures.outbox_dead, figures.cleanup_stuck) == (0, 0, 0)
        assert figures.sandboxes == {}

    async def test_open_runs_are_counted_by_state(self, stores: Stores) -> None:
        """Queued ones with the age of the oldest; ended ones not at all."""
        scene = await Scene.on(stores)
        await scene.submit("run-done")
        await scene.commit(await scene.fresh())
        await scene.parked("run-waiting")
        await scene.started("run-running")
        await scene.submit("run-queued")
        await stores.advance(MINUTE / 2)
        await scene.submit("run-queued-later")

        [lane] = (await _taken(stores)).lanes

        assert (lane.queued.count, lane.running.count, lane.waiting.count) == (2, 1, 1)
        assert MINUTE / 2 <= lane.queued.oldest < MINUTE / 2 + _SLACK
        assert lane.claimed_ago is not None
        assert (lane.stale_leases, lane.running_without_lease, lane.given_up) == (0, 0, 0)

    async def test_runs_that_nobody_holds_show(self, stores: Stores) -> None:
        """A claim past its end is stale, and its run is running without a lease (F77)."""
        scene = await Scene.on(stores)
        await scene.started()
        await stores.advance(LEASE + timedelta(seconds=1))

        [lane] = (await _taken(stores)).lanes

        assert (lane.stale_leases, lane.running_without_lease) == (1, 1)
        assert lane.running.oldest >= LEASE

    async def test_runs_that_the_engine_gave_up_show(self, stores: Stores) -> None:
        """An open run whose task is over would wait for ever, were nobody to see it."""
        scene = await Scene.on(stores)
        await scene.started()
        await stores.end_task(RunId("run-1"), "failed")

        [lane] = (await _taken(stores)).lanes

        assert lane.given_up == 1

    async def test_parked_runners_show_their_silence(self, stores: Stores) -> None:
        """A heart is silent once its timeout is over; the age says how long at most."""
        scene = await Scene.on(stores)
        await scene.parked("run-beating")
        held = await scene.bound(await scene.started("run-silent"))
        began = scene.detached(held).started_at - 2 * LEASE
        await scene.park(held, attrs.evolve(scene.detached(held), started_at=began))
        await stores.advance(MINUTE / 4)

        figures = await _taken(stores)

        assert (figures.detached.count, figures.silent) == (2, 1)
        assert figures.detached.oldest >= MINUTE / 4

    async def test_waits_without_a_limit_show(self, stores: Stores) -> None:
        """Only a signal or a person ends them, so somebody must be able to see them (F26)."""
        scene = await Scene.on(stores)
        bounded, unbounded = await scene.started("run-bounded"), await scene.started("run-open")
        limit = scene.asleep(bounded).wake_at
        await scene.park(bounded, attrs.evolve(scene.awaiting(bounded), expires_at=limit))
        await scene.park(unbounded, attrs.evolve(scene.awaiting(unbounded), expires_at=None))
        await stores.advance(MINUTE)

        figures = await _taken(stores)

        assert figures.waits.count == 1
        assert MINUTE <= figures.waits.oldest < MINUTE + _SLACK

    async def test_what_is_left_undone_shows(self, stores: Stores) -> None:
        """Facts not delivered and sandboxes not deleted, with the age of the oldest."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        await scene.commit(held)
        await stores.advance(MINUTE)

        figures = await _taken(stores)

        assert (figures.outbox.count, figures.cleanup.count) == (1, 1)
        assert figures.outbox.oldest >= MINUTE
        assert figures.cleanup.oldest >= MINUTE
        assert figures.sandboxes == {PROVIDER: 1}


async def _taken(stores: Stores) -> Figures:
    return await stores.census.take(silent_after=LEASE, stuck_after=STUCK_AFTER)


def _piles(figures: Figures) -> list[int]:
    piles = (
        figures.unsettled,
        figures.detached,
        figures.outbox,
        figures.cleanup,
        figures.waits,
    )
    return [pile.count for pile in piles]
