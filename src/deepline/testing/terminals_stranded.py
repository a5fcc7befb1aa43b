"""What every `Terminals` keeps when a run is ended that its engine lost (A30, L01, L08)."""

from deepline.core.model.attempt import AttemptStatus, RetireReason
from deepline.core.model.identity import RunId
from deepline.core.model.result import Failed
from deepline.core.model.run import RunStatus
from deepline.ports.terminals import (
    Cancelled,
    CommitOutcome,
    Committed,
    NotCancelled,
    NotCommitted,
    TerminalCommit,
    Unstarted,
)
from deepline.testing.scene import LATER, RELEASE, WHY, Held, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")
LOST = Failed(error="RUNTIME_RUN_STRANDED: lost")


class StrandedTerminalsContract:
    """Asks for `stores`."""

    async def test_a_lost_attempt_is_ended(self, stores: Stores) -> None:
        """A waiting attempt whose task is over ends as told, with its cleanup and its fact."""
        scene = await Scene.on(stores)
        held = await scene.parked()
        await stores.end_task(RUN, "failed")

        committed = expect(await self._end(scene, held), Committed)

        assert (committed.status, committed.result) == (RunStatus.FAILED, LOST)
        assert [kind for _, _, kind in await scene.facts()] == ["run.created", "run.failed"]
        assert [job.key for job in await scene.jobs()] == [held.key]

    async def test_a_retired_attempt_is_ended(self, stores: Stores) -> None:
        """Nobody can start the run again, so its last attempt may be retired already (L08)."""
        scene = await Scene.on(stores)
        held = await self._retired(scene)
        await stores.lose_task(RUN)

        committed = expect(await self._end(scene, held), Committed)

        assert committed.status is RunStatus.FAILED
        attempt = await stores.attempts.read(held.key)
        assert attempt is not None
        assert attempt.status is AttemptStatus.FAILED

    async def test_a_task_that_is_open_is_left_its_run(self, stores: Stores) -> None:
        """The commit is refused as long as somebody may claim the run, waiting or retired."""
        scene = await Scene.on(stores)
        waiting = await scene.parked("run-2")
        retired = await self._retired(scene)

        for held in (waiting, retired):
            outcome = expect(await self._end(scene, held), NotCommitted)
            assert outcome.status in (RunStatus.WAITING, RunStatus.QUEUED)

    async def test_an_unstarted_run_is_cancelled_once_its_task_is_over(
        self, stores: Stores
    ) -> None:
        """With `task_over` an open task leaves the run alone; one that is over does not (A30)."""
        scene = await Scene.on(stores)
        receipt = await scene.submit()
        condition = Unstarted(release_id=RELEASE, task_id=receipt.task_id, task_over=True)

        early = await stores.terminals.cancel_unstarted(RUN, condition, reason="lost", why=WHY)
        await stores.end_task(RUN, "cancelled")
        late = await stores.terminals.cancel_unstarted(RUN, condition, reason="lost", why=WHY)

        assert early == NotCancelled(status=RunStatus.QUEUED)
        assert late == Cancelled(had_attempt=False)

    async def _retired(self, scene: Scene) -> Held:
        held = await scene.started()
        await scene.stores.attempts.retire(
            held.ref, held.claim, RetireReason.CAPACITY, delay=LATER, why=WHY
        )
        return held

    async def _end(self, scene: Scene, held: Held) -> CommitOutcome:
        return await scene.stores.terminals.commit(
            TerminalCommit(
                ref=held.ref,
                claim=None,
                result=LOST,
                why=WHY,
                from_waiting=True,
                preserve_runner_terminal=True,
                stranded=True,
            )
        )
