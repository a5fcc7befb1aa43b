"""What every `Attempts` keeps when a worker vanishes with its claim (C12, I11, I13, ENGINE 2)."""

from datetime import timedelta

from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.claim import Exhausted, Fresh, Wake
from deepline.core.model.identity import RunId
from deepline.core.model.result import Failed
from deepline.core.model.run import RunStatus
from deepline.ports.terminals import Committed, NotCommitted
from deepline.testing.scene import LEASE, WHY, Held, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")


class LostClaimsContract:
    """Asks for `stores`."""

    async def test_a_lost_claim_spends_an_engine_attempt(self, stores: Stores) -> None:
        """A lease that ends costs an engine attempt and a pause, and fences its holder."""
        scene = await Scene.on(stores)
        lost = await scene.started()

        await stores.advance(LEASE + timedelta(seconds=1))
        assert await scene.claim() == []
        assert list(await stores.engine.extend([lost.claim], LEASE)) == [lost.claim]
        await stores.advance(timedelta(minutes=2))

        (prepared,) = await scene.claim()
        assert expect(prepared, Fresh).claim.engine_attempt == 2

    async def test_an_attempt_without_a_runner_is_given_up(self, stores: Stores) -> None:
        """Nothing had started: the attempt is retired with its obligation (I13)."""
        scene = await Scene.on(stores)
        lost = await scene.reserved(await scene.started())
        await scene.lose_claim()

        fresh = await scene.fresh()

        assert fresh.ref.attempt == 2
        before = await stores.attempts.read(lost.key)
        assert before is not None
        assert before.status is AttemptStatus.RETIRED
        assert expect(await scene.commit(lost), NotCommitted).status is RunStatus.RUNNING
        (job,) = await scene.jobs()
        assert lost.operation is not None
        assert (job.key, job.sandbox_name, job.sandbox_id) == (
            lost.key,
            lost.operation.name,
            None,
        )

    async def test_an_attempt_with_a_runner_goes_on(self, stores: Stores) -> None:
        """The play may have started: its attempt waits under a lease unknown so far (I11)."""
        scene = await Scene.on(stores)
        lost = await scene.bound(await scene.started())
        await scene.lose_claim()

        (prepared,) = await scene.claim()

        wake = expect(prepared, Wake)
        assert wake.adopted
        assert wake.attempt.status is AttemptStatus.WAITING
        assert wake.attempt.suspension == scene.detached(lost)
        assert wake.attempt.ref.attempt == lost.ref.attempt
        assert wake.attempt.ref.lease_token != lost.ref.lease_token
        assert expect(await scene.commit(lost), NotCommitted).status is RunStatus.WAITING
        assert not await stores.attempts.is_live(lost.ref)
        assert await stores.attempts.key_is_live(lost.key)

    async def test_an_adopted_attempt_stays_so_until_it_is_parked(self, stores: Stores) -> None:
        """If its adopter vanishes too, the next still learns that nothing may have started."""
        scene = await Scene.on(stores)
        await scene.bound(await scene.started())
        await scene.lose_claim()
        (first,) = await scene.claim()
        await scene.lose_claim()

        (second,) = await scene.claim()

        assert expect(first, Wake).adopted
        again = expect(second, Wake)
        assert again.adopted
        held = Held(ref=again.attempt.ref, claim=again.claim)
        await scene.park(held, until=held.claim.claimed_at)
        (third,) = await scene.claim()
        assert not expect(third, Wake).adopted

    async def test_a_resumed_attempt_is_not_replaced(self, stores: Stores) -> None:
        """A resumed attempt whose holder vanished is woken, never replaced (I11)."""
        scene = await Scene.on(stores)
        await scene.parked()
        await stores.advance(timedelta(minutes=6))
        held = await scene.wake()
        assert await stores.attempts.resume(held.ref, held.claim, Checkpoint())
        await scene.lose_claim()

        (prepared,) = await scene.claim()

        wake = expect(prepared, Wake)
        assert wake.attempt.ref.attempt == held.ref.attempt

    async def test_used_up_attempts_leave_a_finaliser(self, stores: Stores) -> None:
        """Past the engine attempts a claim may only settle, also an attempt that is retired."""
        scene = await Scene.on(stores)
        await scene.submit(engine=1, finaliser=2)
        await scene.fresh()
        await scene.lose_claim()

        (prepared,) = await scene.claim()

        exhausted = expect(prepared, Exhausted)
        assert exhausted.claim.is_finaliser
        assert exhausted.attempt is not None
        assert exhausted.attempt.ref.attempt == 1
        held = Held(ref=exhausted.attempt.ref, claim=exhausted.claim)
        expect(await scene.commit(held, Failed(error="GAVE_UP: no attempt is left")), Committed)
        assert await stores.terminals.status(RUN) is RunStatus.FAILED

    async def test_a_finaliser_settles_a_retired_attempt(self, stores: Stores) -> None:
        """The newest attempt may be over by then; the run must still end."""
        scene = await Scene.on(stores)
        await scene.submit(engine=2, finaliser=1)
        await scene.fresh()
        await scene.lose_claim()
        second = await scene.fresh()
        assert await stores.attempts.fail(second.ref, second.claim, WHY, reason="it broke")
        await stores.advance(timedelta(minutes=2))

        (prepared,) = await scene.claim()

        exhausted = expect(prepared, Exhausted)
        assert exhausted.attempt is not None
        assert exhausted.attempt.status is AttemptStatus.RETIRED
        held = Held(ref=exhausted.attempt.ref, claim=exhausted.claim)
        expect(await scene.commit(held, Failed(error="GAVE_UP: no attempt is left")), Committed)

    async def test_only_a_finaliser_settles_a_retired_attempt(self, stores: Stores) -> None:
        """While an attempt is left, one that was given up cannot end its run (I04)."""
        scene = await Scene.on(stores)
        first = await scene.started()
        await scene.lose_claim()
        second = await scene.fresh()

        outcome = await scene.commit(Held(ref=first.ref, claim=second.claim))

        assert expect(outcome, NotCommitted).status is RunStatus.RUNNING

    async def test_nobody_is_found_to_settle(self, stores: Stores) -> None:
        """A run that never had an attempt is exhausted without one."""
        scene = await Scene.on(stores)
        await scene.submit(engine=1, finaliser=1, acknowledged=False)
        await scene.claim()
        await scene.lose_claim()

        (prepared,) = await scene.claim()

        assert expect(prepared, Exhausted).attempt is None

    async def test_an_engine_task_ends_with_its_last_attempt(self, stores: Stores) -> None:
        """When finaliser attempts are used up too, nothing is claimable any more."""
        scene = await Scene.on(stores)
        await scene.submit(engine=1, finaliser=1)
        await scene.fresh()
        await scene.lose_claim()
        await scene.claim()
        await scene.lose_claim()

        assert await scene.claim() == []
        assert await stores.engine.next_due(scene.submission().lane) is None
        assert await stores.terminals.status(RUN) is RunStatus.RUNNING
