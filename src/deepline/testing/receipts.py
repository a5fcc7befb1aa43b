"""What every `Receipts` keeps (C28, plays)."""

import trio

from deepline.core.model.identity import RunId
from deepline.ports.errors import FenceLost
from deepline.ports.receipts import StepResult
from deepline.testing.refusals import refused
from deepline.testing.scene import Scene
from deepline.testing.stores import Stores

RUN = RunId("run-1")


class ReceiptsContract:
    """Asks for `stores`."""

    async def test_the_first_result_of_a_step_stays(self, stores: Stores) -> None:
        """A step that is saved again answers what is stored."""
        scene = await Scene.on(stores)
        held = await scene.started()
        first = StepResult(step="charge", attempt=1, output={"paid": True})

        assert await stores.receipts.save_step(held.key, "charge", {"paid": True}) == first
        assert await stores.receipts.save_step(held.key, "charge", {"paid": False}) == first

    async def test_steps_are_read_in_the_order_of_writing(self, stores: Stores) -> None:
        """A resumed play gets its results back in order, a result of nothing among them."""
        scene = await Scene.on(stores)
        held = await scene.started()
        for name in ("zeta", "alpha", "mid"):
            await stores.receipts.save_step(held.key, name, None)

        assert [step.step for step in await stores.receipts.steps(RUN)] == ["zeta", "alpha", "mid"]
        assert not await stores.receipts.steps(RunId("run-unknown"))

    async def test_only_a_live_attempt_saves(self, stores: Stores) -> None:
        """A runner whose attempt is over saves nothing."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await scene.commit(held)

        await refused(stores.receipts.save_step(held.key, "late", 1), FenceLost)

        assert not await stores.receipts.steps(RUN)

    async def test_savers_race(self, stores: Stores) -> None:
        """All who race to save a step get the same stored result."""
        scene = await Scene.on(stores)
        held = await scene.started()
        answers: list[StepResult] = []

        async def save(number: int) -> None:
            answers.append(await stores.receipts.save_step(held.key, "once", number))

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(save, number)

        (stored,) = await stores.receipts.steps(RUN)
        assert answers == [stored] * 4

    async def test_release_without_receipts(self, stores: Stores) -> None:
        """Releasing an attempt that leased nothing releases nothing and keeps its steps."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.receipts.save_step(held.key, "charge", 1)

        assert await stores.receipts.release(held.ref, reason="too_early") == 0
        await scene.commit(held)
        assert await stores.receipts.release(held.ref, reason="failed_terminal") == 0

        assert len(await stores.receipts.steps(RUN)) == 1
