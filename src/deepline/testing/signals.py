"""What every `Signals` keeps (C11, I23, Q10, Q52)."""

import trio

from deepline.core.model.identity import RunId
from deepline.ports.errors import NotFound, Refused
from deepline.ports.signals import Signal
from deepline.testing.refusals import refused
from deepline.testing.scene import Scene
from deepline.testing.stores import Stores

RUN = RunId("run-1")
ANY = Signal(event_key="approved", boundary_id=None, payload={"by": "ann"})
FIRST = Signal(event_key="approved", boundary_id="wait-1", payload={"by": "bob"})


class SignalsContract:
    """Asks for `stores`."""

    async def test_a_signal_is_taken_as_it_was_put(self, stores: Stores) -> None:
        """A taken signal equals the stored one, and there is one for each put (I23)."""
        scene = await Scene.on(stores)
        await scene.submit()

        assert await stores.signals.take(RUN, "approved", "wait-1") is None
        assert await stores.signals.put(RUN, ANY, signal_id="s-1")

        assert await stores.signals.take(RUN, "approved", "wait-1") == ANY
        assert await stores.signals.take(RUN, "approved", "wait-2") is None

    async def test_a_claimed_signal_is_answered_again(self, stores: Stores) -> None:
        """The wait that claimed a signal gets the same one again, so that a retry is harmless."""
        scene = await Scene.on(stores)
        await scene.submit()
        await stores.signals.put(RUN, ANY, signal_id="s-1")
        await stores.signals.take(RUN, "approved", "wait-1")
        await stores.signals.put(RUN, FIRST, signal_id="s-2")

        assert await stores.signals.take(RUN, "approved", "wait-1") == ANY

    async def test_a_signal_for_one_wait_is_not_taken_by_another(self, stores: Stores) -> None:
        """A signal that names a suspension point waits for it; one that names none is for any."""
        scene = await Scene.on(stores)
        await scene.submit()
        await stores.signals.put(RUN, FIRST, signal_id="s-1")

        assert await stores.signals.take(RUN, "approved", "wait-2") is None
        assert await stores.signals.take(RUN, "other", "wait-1") is None
        assert await stores.signals.take(RUN, "approved", "wait-1") == FIRST

    async def test_the_oldest_signal_is_taken_first(self, stores: Stores) -> None:
        """Signals are taken in the order in which they came."""
        scene = await Scene.on(stores)
        await scene.submit()
        signals = [Signal(event_key="e", boundary_id=None, payload={"n": n}) for n in range(3)]
        for number, signal in enumerate(signals):
            await stores.signals.put(RUN, signal, signal_id=f"s-{9 - number}")

        taken = [await stores.signals.take(RUN, "e", f"wait-{n}") for n in range(3)]

        assert taken == signals

    async def test_a_named_signal_is_put_once(self, stores: Stores) -> None:
        """A signal id is stored once, also after it was claimed (Q10)."""
        scene = await Scene.on(stores)
        await scene.submit()
        assert await stores.signals.put(RUN, ANY, signal_id="s-1")
        assert not await stores.signals.put(RUN, FIRST, signal_id="s-1")
        await stores.signals.take(RUN, "approved", "wait-1")

        assert not await stores.signals.put(RUN, ANY, signal_id="s-1")

    async def test_an_equal_signal_is_put_once_while_unclaimed(self, stores: Stores) -> None:
        """Without an id an equal unclaimed signal is the same; a claimed one is not (Q10)."""
        scene = await Scene.on(stores)
        await scene.submit()
        assert await stores.signals.put(RUN, ANY, signal_id=None)
        assert not await stores.signals.put(RUN, ANY, signal_id=None)
        assert await stores.signals.put(RUN, FIRST, signal_id=None)
        assert await stores.signals.take(RUN, "approved", "wait-9") == ANY

        assert await stores.signals.put(RUN, ANY, signal_id=None)

    async def test_nobody_signals_a_run_that_is_not_there(self, stores: Stores) -> None:
        """An unknown run is not found, one that has ended refuses."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await scene.commit(held)

        await refused(stores.signals.put(RunId("run-x"), ANY, signal_id=None), NotFound)
        problem = await refused(stores.signals.put(RUN, ANY, signal_id=None), Refused)
        assert problem.code == "run_ended"

    async def test_takers_race(self, stores: Stores) -> None:
        """Waits that race for one signal do not both get it."""
        scene = await Scene.on(stores)
        await scene.submit()
        await stores.signals.put(RUN, ANY, signal_id="s-1")
        taken: list[Signal | None] = []

        async def take(boundary_id: str) -> None:
            taken.append(await stores.signals.take(RUN, "approved", boundary_id))

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(take, f"wait-{number}")

        assert taken.count(ANY) == 1
        assert taken.count(None) == 3
