"""What every `Attempts` keeps when a fresh attempt is given up (C17, C54, I13, I15, I16, Q31)."""

from datetime import timedelta

import attrs

from deepline.core.model.attempt import AttemptStatus, RetireReason
from deepline.core.model.identity import RunId
from deepline.core.model.run import RunStatus
from deepline.ports.attempts import LostFence, OutageExhausted, OutageOutcome, Retired
from deepline.testing.scene import LATER, LEASE, WHY, Held, Scene, expect
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

    async def test_waits_for_a_dependency_are_counted(self, stores: Stores) -> None:
        """A retirement for a dependency counts the wait in its own commit, per dependency (C53)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        assert await stores.attempts.recovery(held.key, "sandbox") is None
        await self._retire(scene, held, dependency="sandbox")
        first = await stores.attempts.recovery(held.key, "sandbox")
        assert first is not None

        again = await self._next(scene, DELAY)
        await self._retire(scene, again, dependency="sandbox")

        second = await stores.attempts.recovery(again.key, "sandbox")
        assert second is not None
        assert (first.deferrals, second.deferrals) == (1, 2)
        assert await stores.attempts.recovery(again.key, "database") is None

    async def test_a_refused_retirement_counts_nothing(self, stores: Stores) -> None:
        """Where the fence is lost, no wait is counted either."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await scene.commit(held)

        assert await self._retire(scene, held, dependency="sandbox") == LostFence()

        assert await stores.attempts.recovery(held.key, "sandbox") is None

    async def test_a_failing_fresh_attempt_is_retired(self, stores: Stores) -> None:
        """Spending the engine attempt retires a fresh attempt with its obligation (C19.6, I13)."""
        scene = await Scene.on(stores)
        held = await scene.reserved(await scene.started())

        assert await stores.attempts.fail(held.ref, held.claim, WHY, reason="it broke")

        retired = await stores.attempts.read(held.key)
        assert retired is not None
        assert retired.status is AttemptStatus.RETIRED
        assert await stores.terminals.status(RUN) is RunStatus.QUEUED
        assert [job.key for job in await scene.jobs()] == [held.key]
        assert await scene.claim() == []
        again = await self._next(scene, timedelta(seconds=3))
        assert (again.ref.attempt, again.claim.engine_attempt) == (2, 2)

    async def test_a_failure_leaves_a_runner_alone(self, stores: Stores) -> None:
        """A bound attempt stays as it is when its claim fails, for its runner may live (A31)."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())

        assert await stores.attempts.fail(held.ref, held.claim, WHY, reason="it broke")

        assert await stores.attempts.is_live(held.ref)
        assert await scene.jobs() == []
        await stores.advance(timedelta(seconds=3))
        assert (await scene.wake()).claim.engine_attempt == 2

    async def test_a_failure_leaves_a_parked_attempt_alone(self, stores: Stores) -> None:
        """A waiting attempt keeps its fence when the claim that woke it fails (A32)."""
        scene = await Scene.on(stores)
        await scene.parked()
        await stores.advance(LATER)
        held = await scene.wake()

        assert await stores.attempts.fail(held.ref, held.claim, WHY, reason="it broke")

        await stores.advance(timedelta(seconds=3))
        assert (await scene.wake()).ref == held.ref

    async def test_a_lost_claim_fails_nothing(self, stores: Stores) -> None:
        """Whoever lost the claim spends no attempt and retires none."""
        scene = await Scene.on(stores)
        held = await scene.started()
        stale = attrs.evolve(held.claim, owner="nobody")

        assert not await stores.attempts.fail(held.ref, stale, WHY, reason="it broke")

        assert await stores.attempts.is_live(held.ref)
        assert not await stores.engine.extend([held.claim], LEASE)

    async def _retire(
        self, scene: Scene, held: Held, *, dependency: str | None = None
    ) -> Retired | LostFence:
        return await scene.stores.attempts.retire(
            held.ref,
            held.claim,
            RetireReason.CAPACITY,
            delay=DELAY,
            why=WHY,
            dependency=dependency,
        )

    async def _outage(self, scene: Scene, held: Held) -> OutageOutcome:
        return await scene.stores.attempts.retire_for_outage(
            held.ref, held.claim, bound=BOUND, delay=DELAY, why=WHY
        )

    async def _next(self, scene: Scene, wait: timedelta) -> Held:
        await scene.stores.advance(wait + timedelta(seconds=1))
        return await scene.fresh()
