"""What every `Receipts` keeps (C28, plays)."""

import trio

from deepline.core.model.identity import AttemptKey, RunId
from deepline.ports.errors import FenceLost
from deepline.ports.receipts import (
    LeaseAnswer,
    ReceiptDone,
    ReceiptInDoubt,
    ReceiptLeased,
    StepResult,
)
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

    async def test_an_action_is_leased_once(self, stores: Stores) -> None:
        """The holder may ask again, since an answer may be lost; to others it is in doubt."""
        scene = await Scene.on(stores)
        held = await scene.started()
        lease = stores.receipts.lease

        assert await lease(held.key, "charge", "one") == ReceiptLeased()
        assert await lease(held.key, "charge", "one") == ReceiptLeased()
        assert await lease(held.key, "charge", "two") == ReceiptInDoubt(attempt=1)
        assert await lease(held.key, "refund", "two") == ReceiptLeased()

    async def test_a_done_action_answers_its_result(self, stores: Stores) -> None:
        """Whoever asks for a done action gets the first result, its holder too."""
        scene = await Scene.on(stores)
        held = await scene.started()
        done = ReceiptDone(attempt=1, output={"paid": True})
        await stores.receipts.lease(held.key, "charge", "one")

        assert await stores.receipts.complete(held.key, "charge", "one", {"paid": True}) == done
        assert await stores.receipts.complete(held.key, "charge", "one", {"paid": False}) == done
        for holder in ("one", "two"):
            assert await stores.receipts.lease(held.key, "charge", holder, redo=True) == done

    async def test_only_the_holder_completes(self, stores: Stores) -> None:
        """Nobody tells the result of an action that is not leased to them."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.receipts.lease(held.key, "charge", "one")
        complete = stores.receipts.complete

        await refused(complete(held.key, "charge", "two", 1), FenceLost)
        await refused(complete(held.key, "unknown", "one", 1), FenceLost)
        await refused(complete(AttemptKey(RUN, 2), "charge", "one", 1), FenceLost)

        assert await stores.receipts.lease(held.key, "charge", "two") == ReceiptInDoubt(attempt=1)

    async def test_an_action_that_is_safe_to_redo_changes_hands(self, stores: Stores) -> None:
        """With `redo` the asker becomes the holder, and the one before it is holder no more."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.receipts.lease(held.key, "charge", "one")

        assert await stores.receipts.lease(held.key, "charge", "two", redo=True) == ReceiptLeased()

        await refused(stores.receipts.complete(held.key, "charge", "one", 1), FenceLost)
        done = await stores.receipts.complete(held.key, "charge", "two", 2)
        assert done == ReceiptDone(attempt=1, output=2)

    async def test_only_a_live_attempt_leases(self, stores: Stores) -> None:
        """A runner whose attempt is over begins no action, not even one it had leased."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.receipts.lease(held.key, "charge", "one")
        await scene.commit(held)

        for receipt in ("charge", "refund"):
            await refused(stores.receipts.lease(held.key, receipt, "one", redo=True), FenceLost)

    async def test_a_result_is_taken_after_the_end(self, stores: Stores) -> None:
        """What was done is kept although its attempt is over and its lease was given back."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.receipts.lease(held.key, "charge", "one")
        await scene.commit(held)
        assert await stores.receipts.release(held.ref, reason="failed_terminal") == 1
        assert await stores.receipts.release(held.ref, reason="failed_terminal") == 0

        done = await stores.receipts.complete(held.key, "charge", "one", "charged")

        assert done == ReceiptDone(attempt=1, output="charged")

    async def test_live_leases_are_kept(self, stores: Stores) -> None:
        """Nothing is released under a fence that holds, and nothing that is done (I31)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.receipts.lease(held.key, "charge", "one")
        await stores.receipts.lease(held.key, "refund", "one")
        await stores.receipts.complete(held.key, "refund", "one", 1)

        assert await stores.receipts.release(held.ref, reason="too_early") == 0
        await scene.commit(held)

        assert await stores.receipts.release(held.ref, reason="failed_terminal") == 1

    async def test_holders_race(self, stores: Stores) -> None:
        """Of all who race for an action exactly one may do it."""
        scene = await Scene.on(stores)
        held = await scene.started()
        answers: list[LeaseAnswer] = []

        async def lease(number: int) -> None:
            answers.append(await stores.receipts.lease(held.key, "charge", f"holder-{number}"))

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(lease, number)

        assert answers.count(ReceiptLeased()) == 1
        assert answers.count(ReceiptInDoubt(attempt=1)) == 3
