"""What every store keeps of a play that suspends itself and goes on later (C29, I02, L12)."""

from datetime import timedelta

import attrs
import trio

from deepline.core.model.attempt import AttemptStatus, RetireReason
from deepline.core.model.checkpoint import Checkpoint, SilenceProof
from deepline.core.model.claim import Fresh, Wake
from deepline.core.model.heartbeat import NEVER_BEATEN, NoFence
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.result import Completed, Report, Suspended
from deepline.core.model.suspension import Suspension
from deepline.ports.attempts import Retired
from deepline.ports.cleanup import JobDone
from deepline.ports.liveness import BeatAccepted, BeatRefused
from deepline.ports.signals import Signal
from deepline.ports.terminals import (
    OfferRefused,
    OfferStored,
    SuspendOutcome,
    SuspensionAlreadyStored,
    SuspensionRefused,
    SuspensionStored,
)
from deepline.testing.scene import BACKOFF, LATER, WHY, Held, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")
DONE = Completed(output=1)
SHORTLY = timedelta(seconds=30)
STATE = Checkpoint(state={"done": [1, 2]})
PASSED = Checkpoint(state={"resumed": {"nap-1": {"kind": "sleep"}}})


class SuspendedAttemptsContract:
    """Asks for `stores`."""

    async def test_a_suspension_is_handed_in_once(self, stores: Stores) -> None:
        """It is stored as pending, with what it reports, and the run is due to be parked on it."""
        scene = await Scene.on(stores)
        held = await scene.parked()
        handed_in = self._suspended(scene.asleep(held))

        assert await stores.terminals.suspend(held.key, handed_in, WHY) == SuspensionStored()
        again = await stores.terminals.suspend(held.key, handed_in, WHY)
        other = await self._suspend(scene, held, scene.awaiting(held))

        assert again == SuspensionAlreadyStored()
        assert other == SuspensionRefused("suspended")
        (prepared,) = await scene.claim()
        attempt = expect(prepared, Wake).attempt
        assert attempt.pending == handed_in
        assert attempt.suspension == scene.detached(held)
        assert attempt.status is AttemptStatus.WAITING

    async def test_the_first_end_of_a_runner_stays(self, stores: Stores) -> None:
        """A terminal and a suspension shut each other out, whichever came first (I02)."""
        scene = await Scene.on(stores)
        suspended, ended = await scene.parked("run-1"), await scene.parked("run-2")

        await self._suspend(scene, suspended, scene.asleep(suspended))
        await stores.terminals.offer(ended.key, DONE, NoFence(), WHY)

        refused = await stores.terminals.offer(suspended.key, DONE, NoFence(), WHY)
        assert refused == OfferRefused(liveness_exists=True, suspended=True)
        assert await stores.terminals.stored(suspended.key) is None
        late = await self._suspend(scene, ended, scene.asleep(ended))
        assert late == SuspensionRefused("terminal_stored")

    async def test_ends_race(self, stores: Stores) -> None:
        """Of a terminal and a suspension that race exactly one is stored (I02)."""
        scene = await Scene.on(stores)
        for number in range(6):
            held = await scene.bound(await scene.started(f"run-{number}"))
            outcomes: list[object] = []

            async def offer(held: Held = held, outcomes: list[object] = outcomes) -> None:
                outcomes.append(await stores.terminals.offer(held.key, DONE, NoFence(), WHY))

            async def suspend(held: Held = held, outcomes: list[object] = outcomes) -> None:
                outcomes.append(await self._suspend(scene, held, scene.asleep(held)))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(offer)
                nursery.start_soon(suspend)

            stored = [one for one in outcomes if one in (OfferStored(), SuspensionStored())]
            assert len(stored) == 1

    async def test_nobody_speaks_for_a_suspended_play(self, stores: Stores) -> None:
        """No heartbeat is taken from it, pending or parked, until another runner is bound."""
        scene = await Scene.on(stores)
        held = await scene.parked()
        await self._suspend(scene, held, scene.asleep(held))

        assert await stores.liveness.beat(held.key) == BeatRefused("suspended")
        woken = await scene.wake()
        await scene.park(woken, scene.asleep(held))
        assert await stores.liveness.beat(held.key) == BeatRefused("suspended")
        refused = await stores.terminals.offer(held.key, DONE, NoFence(), WHY)
        assert refused == OfferRefused(liveness_exists=True, suspended=True)

    async def test_parking_takes_the_suspension_over(self, stores: Stores) -> None:
        """Parked on it the run sleeps, nothing is pending, the sandbox may go (C29, C50)."""
        scene = await Scene.on(stores)
        held = await scene.parked()
        nap = scene.asleep(held)
        await self._suspend(scene, held, nap)
        woken = await scene.wake()

        await scene.park(woken, nap, until=nap.wake_at, checkpoint=STATE)

        assert await scene.claim() == []
        attempt = await stores.attempts.read(held.key)
        assert attempt is not None
        assert (attempt.pending, attempt.suspension) == (None, nap)
        assert attempt.checkpoint == STATE
        (job,) = await scene.jobs()
        assert held.sandbox is not None
        assert job.sandbox_id == held.sandbox.sandbox_id
        assert await self._suspend(scene, held, nap) == SuspensionAlreadyStored()

    async def test_a_suspension_before_parking_is_not_missed(self, stores: Stores) -> None:
        """Handed in while its worker still parks the runner, it makes the run due at once (L12)."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        await self._suspend(scene, held, scene.asleep(held))

        parked = await scene.park(held)

        assert parked.until < held.claim.claimed_at + LATER
        (prepared,) = await scene.claim()
        pending = expect(prepared, Wake).attempt.pending
        assert pending is not None
        assert pending.suspension == scene.asleep(held)

    async def test_suspend_and_park_race(self, stores: Stores) -> None:
        """Whichever comes first, the run is due after both (L12)."""
        scene = await Scene.on(stores)
        for number in range(6):
            held = await scene.bound(await scene.started(f"run-{number}"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(scene.park, held)
                nursery.start_soon(self._suspend, scene, held, scene.asleep(held))

            assert (await scene.wake()).ref == held.ref

    async def test_a_signal_before_the_wait_is_parked_is_not_missed(self, stores: Stores) -> None:
        """A signal that came while the wait was pending makes the parked run due at once (I23)."""
        scene = await Scene.on(stores)
        held = await scene.parked()
        await self._suspend(scene, held, scene.awaiting(held))
        woken = await scene.wake()
        signal = Signal(event_key="approved", boundary_id="wait-1", payload={})
        await stores.signals.put(RUN, signal, signal_id=None)

        await scene.park(woken, scene.awaiting(held))

        await scene.wake()

    async def test_only_a_live_attempts_pause_is_taken(self, stores: Stores) -> None:
        """Runners, dead attempts and unknown ones hand in nothing, and are told why (Q56)."""
        scene = await Scene.on(stores)
        runner = await scene.parked("run-1")
        cancelled = await scene.parked("run-2")
        await stores.terminals.cancel(cancelled.ref.run_id, by="me", reason="enough", why=WHY)
        retired = await scene.started("run-3")
        reason = RetireReason.CAPACITY
        await stores.attempts.retire(retired.ref, retired.claim, reason, delay=LATER, why=WHY)
        unknown = AttemptKey(RunId("run-unknown"), 1)
        nap = self._suspended(scene.asleep(runner))

        assert await self._suspend(scene, runner, scene.detached(runner)) == SuspensionRefused(
            "not_a_pause"
        )
        for held in (cancelled, retired):
            outcome = await self._suspend(scene, held, scene.asleep(held))
            assert outcome == SuspensionRefused("attempt_over")
        assert await stores.terminals.suspend(unknown, nap, WHY) == SuspensionRefused(
            "attempt_unknown"
        )

    async def test_a_suspended_play_is_not_overdue(self, stores: Stores) -> None:
        """A runner that was done before its ceiling is not ended for it."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        late = attrs.evolve(scene.detached(held), ceiling=timedelta(0))
        await scene.park(held, late)
        assert len(await stores.recovery.overdue(lease=LATER, after=None, limit=9)) == 1

        await self._suspend(scene, held, scene.asleep(held))

        assert list(await stores.recovery.overdue(lease=LATER, after=None, limit=9)) == []
        assert not await stores.recovery.claim_overdue(held.ref, owner="me", lease=LATER)

    async def test_a_resumed_play_has_a_runner_again(self, stores: Stores) -> None:
        """Resumed and bound to its next sandbox, the same attempt beats and ends as any other."""
        scene = await Scene.on(stores)
        held = await self._resumed(scene)
        again = await scene.bound(attrs.evolve(held, operation=None))

        expect(await stores.liveness.beat(again.key), BeatAccepted)
        assert await stores.terminals.offer(again.key, DONE, NoFence(), WHY) == OfferStored()
        attempt = await stores.attempts.read(again.key)
        assert attempt is not None
        assert attempt.checkpoint == PASSED

    async def test_a_resumed_attempt_hands_its_checkpoint_on(self, stores: Stores) -> None:
        """Given up for lack of room, its successor begins where it would have (C29.2, C54)."""
        scene = await Scene.on(stores)
        proof = SilenceProof(boundary_id="nap-1", runner_attempt=1, heartbeat=NEVER_BEATEN)
        held = await self._resumed(scene, attrs.evolve(PASSED, silence_proof=proof))
        outcome = await stores.attempts.retire(
            held.ref, held.claim, RetireReason.PRE_CODE, delay=SHORTLY, why=WHY
        )
        expect(outcome, Retired)
        await stores.advance(SHORTLY + timedelta(seconds=1))

        (prepared,) = await scene.claim()

        fresh = expect(prepared, Fresh)
        assert fresh.attempt.ref.attempt == 2
        assert fresh.attempt.checkpoint == PASSED
        assert fresh.attempt.suspension is None

    async def test_checkpoints_are_handed_on_again_and_again(self, stores: Stores) -> None:
        """However often attempts are given up, by whomever, nothing that was passed is lost."""
        scene = await Scene.on(stores)
        held = await self._resumed(scene)
        await stores.attempts.retire_for_outage(
            held.ref, held.claim, bound=LATER, delay=timedelta(0), why=WHY
        )
        second = await scene.fresh()
        assert await stores.attempts.fail(second.ref, second.claim, WHY, reason="it broke")
        await stores.advance(BACKOFF)
        await scene.fresh()
        await scene.lose_claim()

        (prepared,) = await scene.claim()

        fresh = expect(prepared, Fresh)
        assert fresh.attempt.ref.attempt == 4
        assert fresh.attempt.checkpoint == PASSED

    async def test_a_bound_sandbox_ends_a_wait_for_one(self, stores: Stores) -> None:
        """A later wait for the same dependency begins anew, however old the first is (C53)."""
        scene = await Scene.on(stores)
        first = await scene.started()
        await stores.attempts.retire(
            first.ref,
            first.claim,
            RetireReason.PRE_CODE,
            delay=timedelta(0),
            why=WHY,
            dependency="sandbox_acquisition",
        )
        held = await scene.fresh()
        assert await stores.attempts.recovery(held.key, "sandbox_acquisition") is not None

        await scene.bound(held)

        assert await stores.attempts.recovery(held.key, "sandbox_acquisition") is None

    async def _resumed(self, scene: Scene, checkpoint: Checkpoint = PASSED) -> Held:
        """Bring a play to where it slept, its sandbox is gone, and its attempt runs again."""
        held = await scene.parked()
        nap = scene.asleep(held)
        await self._suspend(scene, held, nap)
        woken = await scene.wake()
        await scene.park(woken, nap, until=woken.claim.claimed_at, checkpoint=STATE)
        (job,) = await scene.jobs()
        await scene.stores.cleanup.finish(job, JobDone())
        again = await scene.wake()
        assert await scene.stores.attempts.resume(again.ref, again.claim, checkpoint)
        return again

    async def _suspend(self, scene: Scene, held: Held, suspension: Suspension) -> SuspendOutcome:
        return await scene.stores.terminals.suspend(held.key, self._suspended(suspension), WHY)

    def _suspended(self, suspension: Suspension) -> Suspended:
        return Suspended(suspension=suspension, report=Report(logs=("line",), checkpoint=STATE))
