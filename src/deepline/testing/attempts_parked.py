"""What every `Attempts` keeps when a run waits (C20, C29, C30, I15, I17, L12)."""

from datetime import timedelta

import attrs
import trio

from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.checkpoint import Checkpoint, SilenceProof, SilenceWatch
from deepline.core.model.claim import Wake
from deepline.core.model.heartbeat import NEVER_BEATEN, NoFence
from deepline.core.model.identity import LeaseToken, RunId
from deepline.core.model.result import Completed
from deepline.core.model.run import RunStatus
from deepline.ports.attempts import LostFence
from deepline.ports.signals import Signal
from deepline.testing.scene import LATER, WHY, Held, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")
SHORTLY = timedelta(seconds=30)
PASSED = Checkpoint(state={"resumed": {"boundary-1": {"kind": "sleep"}}})


class ParkedAttemptsContract:
    """Asks for `stores`."""

    async def test_a_parked_run_sleeps_until_its_time(self, stores: Stores) -> None:
        """Parking gives the claim back; at the due time the same attempt wakes, costing nothing."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        checkpoint = Checkpoint(
            state={"done": [1, 2]},
            silence_proof=SilenceProof(
                boundary_id="boundary-1", runner_attempt=1, heartbeat=NEVER_BEATEN
            ),
        )
        silence = SilenceWatch(
            boundary_id="boundary-1", runner_attempt=1, heartbeat=NEVER_BEATEN, silent_slices=2
        )
        until = held.claim.claimed_at + SHORTLY

        parked = await scene.park(held, until=until, checkpoint=checkpoint, silence=silence)
        assert parked.until == until
        assert await stores.terminals.status(RUN) is RunStatus.WAITING
        assert await scene.claim() == []
        await stores.advance(SHORTLY + timedelta(seconds=1))

        (prepared,) = await scene.claim()
        wake = expect(prepared, Wake)
        assert not wake.adopted
        assert wake.claim.engine_attempt == 1
        attempt = wake.attempt
        assert (attempt.ref, attempt.status) == (held.ref, AttemptStatus.WAITING)
        assert attempt.checkpoint == checkpoint
        assert attempt.silence == silence
        assert expect(attempt.suspension, type(scene.detached(held))).sandbox_id == (
            scene.sandbox_of(held).sandbox_id
        )

    async def test_a_woken_attempt_is_parked_again(self, stores: Stores) -> None:
        """A waiting attempt is parked again as it stands, without being resumed (C30)."""
        scene = await Scene.on(stores)
        await scene.parked()
        await stores.advance(LATER)
        held = await scene.wake()

        await scene.park(held)

        assert await scene.claim() == []
        await stores.advance(LATER)
        assert (await scene.wake()).ref == held.ref

    async def test_a_pushed_terminal_wakes_the_run(self, stores: Stores) -> None:
        """A runner terminal makes the parked run due at once (C34)."""
        scene = await Scene.on(stores)
        held = await scene.parked()

        await stores.terminals.offer(held.key, Completed(output=1), NoFence(), WHY)

        (prepared,) = await scene.claim()
        assert expect(prepared, Wake).attempt.runner_terminal == Completed(output=1)

    async def test_a_terminal_pushed_before_parking_is_not_missed(self, stores: Stores) -> None:
        """A run parked after its terminal was stored is due at once (L12)."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        await stores.terminals.offer(held.key, Completed(output=1), NoFence(), WHY)

        parked = await scene.park(held)

        assert parked.until < held.claim.claimed_at + LATER
        await scene.wake()

    async def test_push_and_park_race(self, stores: Stores) -> None:
        """Whichever comes first, the run is due after both (L12)."""
        scene = await Scene.on(stores)
        for number in range(8):
            held = await scene.bound(await scene.started(f"run-{number}"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(scene.park, held)
                nursery.start_soon(
                    stores.terminals.offer, held.key, Completed(output=1), NoFence(), WHY
                )

            assert (await scene.wake()).ref == held.ref

    async def test_a_heartbeat_does_not_wake(self, stores: Stores) -> None:
        """A beating heart is no news: the parked run sleeps on (C30)."""
        scene = await Scene.on(stores)
        held = await scene.parked()

        await stores.liveness.beat(held.key)

        assert await scene.claim() == []

    async def test_a_beat_that_ends_a_silence_is_not_missed(self, stores: Stores) -> None:
        """A run parked to watch a silence that is broken already is due at once (C31)."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        await stores.liveness.beat(held.key)
        silence = SilenceWatch(
            boundary_id="boundary-1", runner_attempt=1, heartbeat=NEVER_BEATEN, silent_slices=1
        )

        await scene.park(held, silence=silence)

        await scene.wake()

    async def test_a_signal_wakes_its_wait(self, stores: Stores) -> None:
        """A signal wakes the run that waits for it and no other wait (C11)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await scene.park(held, scene.awaiting(held))

        await stores.signals.put(RUN, _signal("other"), signal_id=None)
        assert await scene.claim() == []
        await stores.signals.put(RUN, _signal("approved", boundary_id="wait-9"), signal_id=None)
        assert await scene.claim() == []
        await stores.signals.put(RUN, _signal("approved"), signal_id=None)

        await scene.wake()

    async def test_a_signal_that_came_first_is_not_missed(self, stores: Stores) -> None:
        """A run that parks for a signal stored already is due at once (I23)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.signals.put(RUN, _signal("approved", boundary_id="wait-1"), signal_id="s-1")

        await scene.park(held, scene.awaiting(held))

        await scene.wake()

    async def test_a_sleeping_play_holds_no_sandbox(self, stores: Stores) -> None:
        """Parking for a time or an event owes the deletion of the attempt's sandbox (C29, C50)."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())

        await scene.park(held, scene.asleep(held))

        (job,) = await scene.jobs()
        assert held.sandbox is not None
        assert job.sandbox_id == held.sandbox.sandbox_id

    async def test_only_the_holder_parks(self, stores: Stores) -> None:
        """A stale claim or a wrong lease parks nothing."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        stranger = attrs.evolve(held, ref=attrs.evolve(held.ref, lease_token=LeaseToken("guessed")))
        stale = attrs.evolve(held, claim=attrs.evolve(held.claim, owner="nobody"))

        for wrong in (stranger, stale):
            outcome = await stores.attempts.park(
                wrong.ref,
                wrong.claim,
                scene.asleep(held),
                until=held.claim.claimed_at + LATER,
                checkpoint=Checkpoint(),
                silence=None,
                why=WHY,
            )
            assert outcome == LostFence()
        attempt = await stores.attempts.read(held.key)
        assert attempt is not None
        assert attempt.status is AttemptStatus.RUNNING
        assert attempt.suspension == scene.detached(held)

    async def test_a_waiting_attempt_is_resumed_once(self, stores: Stores) -> None:
        """Its claim takes it back to running, under its lease, with a checkpoint (C20, C29)."""
        scene = await Scene.on(stores)
        await scene.parked()
        await stores.advance(LATER)
        held = await scene.wake()
        stale = attrs.evolve(held.claim, owner="nobody")

        assert not await stores.attempts.resume(held.ref, stale, PASSED)
        assert await stores.attempts.resume(held.ref, held.claim, PASSED)

        attempt = await stores.attempts.read(held.key)
        assert attempt is not None
        assert (attempt.ref, attempt.status) == (held.ref, AttemptStatus.RUNNING)
        assert attempt.checkpoint == PASSED
        assert await stores.terminals.status(RUN) is RunStatus.RUNNING

    async def test_a_deferral_writes_nothing_on_the_attempt(self, stores: Stores) -> None:
        """A deferral only lets the engine run sleep; the attempt stays as it was (I15, I17)."""
        scene = await Scene.on(stores)
        await scene.parked()
        await stores.advance(LATER)
        held = await scene.wake()
        before = await stores.attempts.read(held.key)

        assert await stores.attempts.defer(held.claim, SHORTLY, WHY)

        assert await stores.attempts.read(held.key) == before
        assert await scene.claim() == []
        await stores.advance(SHORTLY + timedelta(seconds=1))
        again = await scene.wake()
        assert again.claim.engine_attempt == 1
        assert again.ref == held.ref

    async def test_a_lost_claim_defers_nothing(self, stores: Stores) -> None:
        """A claim that was given back cannot be deferred once more."""
        scene = await Scene.on(stores)
        held = await scene.started()
        assert await stores.attempts.defer(held.claim, SHORTLY, WHY)

        assert not await stores.attempts.defer(held.claim, LATER, WHY)

        await stores.advance(SHORTLY + timedelta(seconds=1))
        assert len(await scene.claim()) == 1

    async def test_a_repeated_reason_is_kept_once(self, stores: Stores) -> None:
        """A park that repeats the newest decision replaces it, so that waiting keeps one record."""
        scene = await Scene.on(stores)
        held: Held = await scene.bound(await scene.started())
        for _ in range(3):
            await scene.park(held, until=held.claim.claimed_at)
            held = await scene.wake()

        evidence = await stores.runs.evidence(RUN, None)
        assert evidence is not None
        assert [decision.why for decision in evidence.decisions] == [WHY]


def _signal(event_key: str, *, boundary_id: str | None = None) -> Signal:
    return Signal(event_key=event_key, boundary_id=boundary_id, payload={"by": "someone"})
