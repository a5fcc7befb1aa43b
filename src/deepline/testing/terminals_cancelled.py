"""What every `Terminals` keeps when a run is cancelled (C09, C15.R5, I28, Q37)."""

from deepline.core.model.attempt import AttemptStatus, RetireReason
from deepline.core.model.identity import ReleaseId, RunId
from deepline.core.model.ledger import terminal_event_id
from deepline.core.model.run import RunStatus
from deepline.ports.terminals import Cancelled, NotCancelled, NotCommitted, Unstarted
from deepline.testing.scene import LATER, LEASE, RELEASE, WHY, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")
OTHER_TASK = "00000000-0000-7000-8000-0000000000ff"


class CancelledTerminalsContract:
    """Asks for `stores`."""

    async def test_a_queued_run_is_cancelled(self, stores: Stores) -> None:
        """A cancelled run that never started is never claimed, and its end is told (Q37)."""
        scene = await Scene.on(stores)
        await scene.submit()

        outcome = await stores.terminals.cancel(RUN, by="someone", reason="enough", why=WHY)

        assert outcome == Cancelled(had_attempt=False)
        assert await stores.terminals.status(RUN) is RunStatus.CANCELLED
        assert await scene.claim() == []
        assert (2, terminal_event_id(RUN), "run.cancelled") in await scene.facts()
        found = await stores.runs.read(RUN, None)
        assert found is not None
        assert found.result is None
        assert found.run.cancel_requested_at is not None
        assert found.run.terminal_at is not None
        assert found.run.why == WHY

    async def test_a_live_attempt_ends_with_its_run(self, stores: Stores) -> None:
        """Cancelling a running run fences its worker out and owes its sandbox (C09, I12)."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())

        outcome = await stores.terminals.cancel(RUN, by="someone", reason="enough", why=WHY)

        assert outcome == Cancelled(had_attempt=True)
        attempt = await stores.attempts.read(held.key)
        assert attempt is not None
        assert attempt.status is AttemptStatus.CANCELLED
        assert expect(await scene.commit(held), NotCommitted).status is RunStatus.CANCELLED
        assert list(await stores.engine.extend([held.claim], LEASE)) == [held.claim]
        assert [job.key for job in await scene.jobs()] == [held.key]

    async def test_a_waiting_run_is_cancelled(self, stores: Stores) -> None:
        """A parked run that is cancelled does not wake any more."""
        scene = await Scene.on(stores)
        await scene.parked()

        outcome = await stores.terminals.cancel(RUN, by="someone", reason="enough", why=WHY)

        assert outcome == Cancelled(had_attempt=True)
        await stores.advance(LATER)
        assert await scene.claim() == []

    async def test_an_end_is_not_cancelled(self, stores: Stores) -> None:
        """A run that has ended, or never was, is not cancelled."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await scene.commit(held)

        ended = await stores.terminals.cancel(RUN, by="someone", reason="enough", why=WHY)
        unknown = await stores.terminals.cancel(RunId("run-x"), by="me", reason="enough", why=WHY)

        assert ended == NotCancelled(status=RunStatus.COMPLETED)
        assert unknown == NotCancelled(status=None)
        assert len(await scene.facts()) == 2

    async def test_a_run_is_cancelled_once(self, stores: Stores) -> None:
        """A repeated cancel is harmless (C09)."""
        scene = await Scene.on(stores)
        await scene.submit()
        await stores.terminals.cancel(RUN, by="someone", reason="enough", why=WHY)

        again = await stores.terminals.cancel(RUN, by="other", reason="enough", why=WHY)

        assert again == NotCancelled(status=RunStatus.CANCELLED)
        assert len(await scene.facts()) == 2

    async def test_a_stranded_run_is_cancelled(self, stores: Stores) -> None:
        """A run without an attempt, on this release and task, may be settled (I28)."""
        scene = await Scene.on(stores)
        receipt = await scene.submit(acknowledged=False)
        assert receipt.task_id is not None
        await scene.claim()

        outcome = await stores.terminals.cancel_unstarted(
            RUN, Unstarted(release_id=RELEASE, task_id=receipt.task_id), reason="broken", why=WHY
        )

        assert outcome == Cancelled(had_attempt=False)
        assert await stores.terminals.status(RUN) is RunStatus.CANCELLED

    async def test_a_run_of_others_is_not_settled(self, stores: Stores) -> None:
        """Another release or another task leaves the run alone (I28)."""
        scene = await Scene.on(stores)
        receipt = await scene.submit()
        assert receipt.task_id is not None
        conditions = [
            Unstarted(release_id=ReleaseId("release-2"), task_id=receipt.task_id),
            Unstarted(release_id=None, task_id=receipt.task_id),
            Unstarted(release_id=RELEASE, task_id=OTHER_TASK),
        ]

        for condition in conditions:
            outcome = await stores.terminals.cancel_unstarted(
                RUN, condition, reason="broken", why=WHY
            )
            assert outcome == NotCancelled(status=RunStatus.QUEUED)

    async def test_a_started_run_is_not_settled(self, stores: Stores) -> None:
        """A run that has an attempt is not the preparation's to settle (I28)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        condition = Unstarted(release_id=RELEASE, task_id=held.claim.task_id)

        outcome = await stores.terminals.cancel_unstarted(RUN, condition, reason="broken", why=WHY)

        assert outcome == NotCancelled(status=RunStatus.RUNNING)
        assert await stores.attempts.is_live(held.ref)

    async def test_a_run_that_is_queued_again_is_not_settled(self, stores: Stores) -> None:
        """A run whose attempt was given up has had one, though it is queued (I28)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.attempts.retire(
            held.ref, held.claim, RetireReason.CAPACITY, delay=LATER, why=WHY
        )
        condition = Unstarted(release_id=RELEASE, task_id=held.claim.task_id)

        outcome = await stores.terminals.cancel_unstarted(RUN, condition, reason="broken", why=WHY)

        assert outcome == NotCancelled(status=RunStatus.QUEUED)
