"""What every `Terminals` keeps when a runner's terminal is offered (C32, C34, I02, I05, Q56)."""

import trio

from deepline.core.model.attempt import RetireReason
from deepline.core.model.heartbeat import NEVER_BEATEN, ExpectHeartbeat, NoFence
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.result import Completed, Failed
from deepline.ports.liveness import BeatAccepted
from deepline.ports.terminals import OfferAlreadyStored, OfferOutcome, OfferRefused, OfferStored
from deepline.testing.scene import BACKOFF, WHY, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")
ONE, TWO = Completed(output=1), Failed(error="LOST: it is silent")


class OfferedTerminalsContract:
    """Asks for `stores`."""

    async def test_the_first_terminal_stays(self, stores: Stores) -> None:
        """The first offer is stored; later ones, the same or others, change nothing (I02)."""
        scene = await Scene.on(stores)
        held = await scene.parked()

        assert await stores.terminals.stored(held.key) is None
        assert await stores.terminals.offer(held.key, ONE, NoFence(), WHY) == OfferStored()
        for terminal in (ONE, TWO):
            again = await stores.terminals.offer(held.key, terminal, NoFence(), WHY)
            assert again == OfferAlreadyStored()
        assert await stores.terminals.stored(held.key) == ONE

    async def test_no_fence_ignores_the_heart(self, stores: Stores) -> None:
        """Without a fence a beating heart does not stand in the way (A33)."""
        scene = await Scene.on(stores)
        held = await scene.parked()
        await stores.liveness.beat(held.key)

        assert await stores.terminals.offer(held.key, ONE, NoFence(), WHY) == OfferStored()

    async def test_a_fence_on_never_beaten_is_a_fence(self, stores: Stores) -> None:
        """Expecting a heart that never beat is refused once it did, and holds until then (A33)."""
        scene = await Scene.on(stores)
        fence = ExpectHeartbeat(NEVER_BEATEN)
        beaten = await scene.parked("run-beaten")
        await stores.liveness.beat(beaten.key)
        silent = await scene.parked("run-silent")

        refused = await stores.terminals.offer(beaten.key, TWO, fence, WHY)
        stored = await stores.terminals.offer(silent.key, TWO, fence, WHY)

        assert refused == OfferRefused(liveness_exists=True)
        assert stored == OfferStored()
        assert await stores.terminals.stored(beaten.key) is None

    async def test_a_fence_sees_two_beats_of_one_moment(self, stores: Stores) -> None:
        """A beat after the judged one refuses the verdict, however close they are (I05)."""
        scene = await Scene.on(stores)
        held = await scene.parked()
        first = expect(await stores.liveness.beat(held.key), BeatAccepted)
        second = expect(await stores.liveness.beat(held.key), BeatAccepted)

        stale = ExpectHeartbeat(first.identity)
        assert await stores.terminals.offer(held.key, TWO, stale, WHY) == OfferRefused(
            liveness_exists=True
        )
        current = ExpectHeartbeat(second.identity)
        assert await stores.terminals.offer(held.key, TWO, current, WHY) == OfferStored()

    async def test_an_unknown_attempt_has_no_liveness(self, stores: Stores) -> None:
        """An offer for an attempt that does not exist says that nothing is there (C32, Q60)."""
        scene = await Scene.on(stores)
        await scene.submit()

        for key in (AttemptKey(RUN, 1), AttemptKey(RunId("run-unknown"), 1)):
            assert await stores.terminals.offer(key, ONE, NoFence(), WHY) == OfferRefused(
                liveness_exists=False
            )

    async def test_an_attempt_that_is_over_accepts_nothing(self, stores: Stores) -> None:
        """Ended, cancelled and retired attempts refuse (Q56)."""
        scene = await Scene.on(stores)
        ended = await scene.started("run-ended")
        await scene.commit(ended)
        cancelled = await scene.parked("run-cancelled")
        await stores.terminals.cancel(cancelled.ref.run_id, by="me", reason="enough", why=WHY)
        retired = await scene.started("run-retired")
        await stores.attempts.retire(
            retired.ref, retired.claim, RetireReason.CAPACITY, delay=BACKOFF, why=WHY
        )

        for held in (ended, cancelled, retired):
            assert await stores.terminals.offer(held.key, ONE, NoFence(), WHY) == OfferRefused(
                liveness_exists=True
            )

    async def test_offers_race(self, stores: Stores) -> None:
        """Of offers that race exactly one is stored (I02)."""
        scene = await Scene.on(stores)
        held = await scene.parked()
        outcomes: dict[int, OfferOutcome] = {}

        async def offer(number: int) -> None:
            terminal = Completed(output=number)
            outcomes[number] = await stores.terminals.offer(held.key, terminal, NoFence(), WHY)

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(offer, number)

        (winner,) = [number for number, one in outcomes.items() if one == OfferStored()]
        assert await stores.terminals.stored(held.key) == Completed(output=winner)
        assert sum(one == OfferAlreadyStored() for one in outcomes.values()) == 3
