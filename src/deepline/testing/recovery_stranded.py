"""What every `Recovery` finds of runs that the engine will give to nobody (L08, ENGINE §4)."""

from datetime import timedelta

from deepline.core.model.identity import RunId
from deepline.core.model.run import RunStatus
from deepline.ports.recovery import StrandedRun
from deepline.testing.scene import BACKOFF, LANE, LEASE, RELEASE, WHY, Scene
from deepline.testing.stores import Stores

RUN = RunId("run-1")
GRACE = timedelta(seconds=60)
OVER_GRACE = GRACE + timedelta(seconds=1)


class StrandedRecoveryContract:
    """Asks for `stores`."""

    async def test_a_run_with_a_task_is_not_stranded(self, stores: Stores) -> None:
        """Held back, claimed, parked: while its task is open somebody will get the run."""
        scene = await Scene.on(stores)
        await scene.parked("run-parked")
        await scene.started("run-running")
        await scene.submit("run-queued", acknowledged=False)
        await stores.advance(OVER_GRACE)

        assert await self._stranded(scene) == []

    async def test_a_run_whose_task_is_over_is_stranded(self, stores: Stores) -> None:
        """Failed, completed or cancelled beside the run: it is found after the grace."""
        scene = await Scene.on(stores)
        states = ("cancelled", "completed", "failed")
        for state in states:
            held = await scene.parked(f"run-{state}")
            await stores.end_task(held.ref.run_id, state)
        assert await self._stranded(scene) == []
        await stores.advance(OVER_GRACE)

        found = await self._stranded(scene)

        assert [(one.run_id, one.task_state) for one in found] == [
            (f"run-{state}", state) for state in states
        ]
        assert {(one.lane, one.release_id, one.attempt) for one in found} == {(LANE, RELEASE, 1)}
        assert all(one.task_id is not None for one in found)

    async def test_a_run_without_a_task_is_stranded(self, stores: Stores) -> None:
        """A missing task has no state."""
        scene = await Scene.on(stores)
        await scene.submit()
        await stores.lose_task(RUN)
        await stores.advance(OVER_GRACE)

        (found,) = await self._stranded(scene)

        assert (found.run_id, found.attempt, found.task_state) == (RUN, 0, None)

    async def test_the_engine_gives_up(self, stores: Stores) -> None:
        """When every engine attempt is lost, finalisers too, the run is left stranded."""
        scene = await Scene.on(stores)
        await scene.submit(engine=1, finaliser=1)
        for _ in range(2):
            assert len(await scene.claim()) == 1
            await stores.advance(LEASE + timedelta(seconds=1))
            assert await scene.claim() == []
            await stores.advance(BACKOFF)

        (found,) = await self._stranded(scene)

        assert (found.run_id, found.task_state) == (RUN, "failed")
        assert await stores.terminals.status(RUN) is RunStatus.RUNNING

    async def test_an_ended_run_is_not_stranded(self, stores: Stores) -> None:
        """A terminal and the end of its task are one commit."""
        scene = await Scene.on(stores)
        ended = await scene.started("run-1")
        await scene.commit(ended)
        await scene.parked("run-2")
        await stores.terminals.cancel(RunId("run-2"), by="me", reason="enough", why=WHY)
        await stores.advance(OVER_GRACE)

        assert await self._stranded(scene) == []

    async def test_the_walk_is_bounded_and_complete(self, stores: Stores) -> None:
        """Each step looks at so many open runs, and the steps together at all of them."""
        scene = await Scene.on(stores)
        for number in range(7):
            held = await scene.parked(f"run-{number}")
            if number % 3 == 0:
                await stores.end_task(held.ref.run_id, "failed")
        await stores.advance(OVER_GRACE)

        seen: list[str] = []
        after: RunId | None = None
        steps = 0
        while steps == 0 or after is not None:
            page = await stores.recovery.stranded(grace=GRACE, after=after, limit=2)
            seen.extend(one.run_id for one in page.runs)
            after, steps = page.after, steps + 1

        assert seen == ["run-0", "run-3", "run-6"]
        assert steps == 4

    async def _stranded(self, scene: Scene) -> list[StrandedRun]:
        page = await scene.stores.recovery.stranded(grace=GRACE, after=None, limit=100)
        assert page.after is None
        return sorted(page.runs, key=lambda one: one.run_id)
