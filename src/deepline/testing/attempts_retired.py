"""What every `Attempts` keeps when a fresh attempt is given up (C17, C54, I13, I15, I16, Q31)."""

from datetime import timedelta

import attrs

from deepline.core.model.attempt import AttemptStatus, RetireReason
from deepline.core.model.identity import RunId
from deepline.core.model.run import RunStatus
from deepline.ports.attempts import LostFence, OutageExhausted, OutageOutcome, Retired
from deepline.testing.scene import LEASE, WHY, Held, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")
DELAY = timedelta(seconds=5)
BOUND = timedelta(minutes=10)


class RetiredAttemptsContract:
    """Asks for `stores`."""

    async def test_a_retired_attempt_makes_room_for_the_next(self, stores: Stores) -> None:
        """The run is queued again, due after the delay, and no engine attempt is spent (I15)."""
        scene = await Scene.on(stores)
        held = await scene.started()

        outcome = await self._retire(scene, held)

        assert outcome == Retired(None)
        assert await stores.terminals.status(RUN) is RunStatus.QUEUED
        retired = await stores.attempts.read(held.key)
        assert retired is not None
        assert retired.status is AttemptStatus.RETIRED
        assert await scene.claim() == []
        await stores.advance(DELAY + timedelta(seconds=1))
        again = await scene.fresh()
        assert (again.ref.attempt, again.claim.engine_attempt) == (2, 1)

    async def test_a_retired_attempt_owes_its_sandbox(self, stores: Stores) -> None:
        """What a retired attempt may own is owed a cleanup in the same commit (I13, Q57)."""
        scene = await Scene.on(stores)
        held = await scene.reserved(await scene.started())

        await self._retire(scene, held)

        (job,) = await scene.jobs()
        assert job.key == held.key

    async def test_a_retired_run_keeps_its_place(self, stores: Stores) -> None:
        """A run that is queued again is still in flight: it does not stand in line anew (Q38)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await self._retire(scene, held)
        await scene.submit("run-2")
        await stores.advance(DELAY + timedelta(seconds=1))

        assert [one.claim.run_id for one in await scene.claim(org_limit=1)] == ["run-1"]

    async def test_only_the_holder_retires(self, stores: Stores) -> None:
        """A stale claim, or an attempt over already, retires nothing."""
        scene = await Scene.on(stores)
        held = await scene.started()
        stale = attrs.evolve(held, claim=attrs.evolve(held.claim, owner="nobody"))

        assert await self._retire(scene, stale) == LostFence()
        assert await self._outage(scene, stale) == LostFence()
        assert await stores.attempts.is_live(held.ref)
        await scene.commit(held)
        assert await self._retire(scene, held) == LostFence()
        assert await self._outage(scene, held) == LostFence()

    async def test_an_outage_keeps_its_start(self, stores: Stores) -> None:
        """Attempts retired for the same outage carry its start along an unbroken chain (I16)."""
        scene = await Scene.on(stores)
        first = await scene.started()
        started_at = expect(await self._outage(scene, first), Retired).outage_started_at
        assert started_at is not None
        second = await self._next(scene, DELAY)

        attempt = await stores.attempts.read(second.key)
        assert attempt is not None
        assert attempt.outage_started_at is not None
        expect(await self._outage(scene, second), Retired)
        third = await self._next(scene, BOUND)

        expect(await self._outage(scene, third), OutageExhausted)

    async def test_past_its_bound_an_outage_writes_nothing(self, stores: Stores) -> None:
        """At the bound the attempt stays as it is, for its holder to settle (C17.2)."""
        scene = await Scene.on(stores)
        await self._outage(scene, await scene.started())
        held = await self._next(scene, BOUND)
        before = await stores.attempts.read(held.key)

        expect(await self._outage(scene, held), OutageExhausted)

        assert await stores.attempts.read(held.key) == before
        assert not await stores.engine.extend([held.claim], LEASE)

    async def test_a_token_ends_the_outage(self, stores: Stores) -> None:
        """Once an attempt obtained a token, the next outage starts anew (Q31)."""
        scene = await Scene.on(stores)
        await self._outage(scene, await scene.started())
        held = await self._next(scene, BOUND)

        await stores.attempts.token_obtained(held.ref)

        expect(await self._outage(scene, held), Retired)

    async def test_another_reason_breaks_the_chain(self, stores: Stores) -> None:
        """An attempt retired for want of room does not carry an outage on (Q31)."""
        scene = await Scene.on(stores)
        await self._outage(scene, await scene.started())
        await self._retire(scene, await self._next(scene, DELAY))

        held = await self._next(scene, BOUND)

        attempt = await stores.attempts.read(held.key)
        assert attempt is not None
        assert attempt.outage_started_at is None
        expect(await self._outage(scene, held), Retired)

    async def _retire(self, scene: Scene, held: Held) -> Retired | LostFence:
        return await scene.stores.attempts.retire(
            held.ref, held.claim, RetireReason.CAPACITY, delay=DELAY, why=WHY
        )

    async def _outage(self, scene: Scene, held: Held) -> OutageOutcome:
        return await scene.stores.attempts.retire_for_outage(
            held.ref, held.claim, bound=BOUND, delay=DELAY, why=WHY
        )

    async def _next(self, scene: Scene, wait: timedelta) -> Held:
        await scene.stores.advance(wait + timedelta(seconds=1))
        return await scene.fresh()
