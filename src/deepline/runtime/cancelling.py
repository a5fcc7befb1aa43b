"""Cancelling a run, with its sandboxes deleted at once where that may be done here (C09, C10).

Three things happen for a cancel: the run is ended, its engine task cancelled, its sandboxes taken
away. The first two and the obligation to delete every sandbox are one commit. The clean-up is
started before it and goes on beside it: what is recorded is read and routed meanwhile. Only a
delete waits for the commit, since authority comes before deletion (I12), and it is asked of the
store once more by leasing the job. So a process that dies anywhere here leaves either a run that
nobody cancelled, or a cancelled one whose deletions workers carry out.

An error of the commit reaches the caller when the clean-up has ended too; one of the clean-up is
said and leaves the job to workers.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Self

import attrs
import trio

from deepline.core import cancel_cleanup as rule
from deepline.core.event_catalogue.event import CLEANUP
from deepline.core.limits import Limits
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from deepline.core.model.sandbox import SandboxRef
from deepline.core.model.why import Why
from deepline.ports.cleanup import Cleanup, CleanupJob
from deepline.ports.clock import Clock
from deepline.ports.errors import OutcomeUnknown, PortError
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.ports.sandboxes import Sandboxes
from deepline.ports.telemetry import Telemetry
from deepline.ports.terminals import CancelOutcome, Terminals
from deepline.runtime.cleanup_controller import CleanupController
from deepline.runtime.supervision import text_of

WRITE_LIMIT = timedelta(seconds=10)
"""How long the commit may take before its outcome counts as unknown."""
STORE_MARGIN = timedelta(seconds=5)
"""Beyond the limit of a delete, for the store's part in it."""
TOO_LATE = "not done in time"


@attrs.frozen(kw_only=True)
class CancelPorts:
    """What cancelling works with; `providers` are those whose sandboxes may be deleted here."""

    terminals: Terminals
    sandboxes: Sandboxes
    cleanup: Cleanup
    providers: Mapping[str, SandboxProvider]
    clock: Clock
    telemetry: Telemetry


@attrs.frozen(kw_only=True, eq=False)
class Canceller:
    """Implements `Cancelling` with providers at hand. `owner` names this process, uniquely."""

    ports: CancelPorts
    limits: Limits
    cleaner: CleanupController

    @classmethod
    def over(cls, ports: CancelPorts, limits: Limits, owner: str) -> Self:
        """Build one."""
        cleaner = CleanupController(
            cleanup=ports.cleanup,
            providers=ports.providers,
            clock=ports.clock,
            telemetry=ports.telemetry,
            limits=limits,
            owner=owner,
        )
        return cls(ports=ports, limits=limits, cleaner=cleaner)

    async def cancel(self, run_id: RunId, *, by: str, reason: str, why: Why) -> CancelOutcome:
        """End the run; returns when what can be deleted at once is deleted or given up on.

        Shielded and bounded: a caller who leaves changes nothing. Raises port errors of the commit.
        """
        commit = _Commit()
        delete_limit = self.limits.sandbox_delete + STORE_MARGIN
        longest = WRITE_LIMIT + delete_limit + STORE_MARGIN
        with trio.move_on_after(longest.total_seconds(), shield=True):
            async with trio.open_nursery() as nursery:
                # It runs when the clean-up first waits, so the clean-up is begun before it.
                nursery.start_soon(self._write, commit, run_id, by, reason, why)
                await self._clean_up(run_id, commit, delete_limit)
        if isinstance(commit.outcome, PortError):
            raise commit.outcome
        return commit.outcome

    async def _write(
        self, commit: "_Commit", run_id: RunId, by: str, reason: str, why: Why
    ) -> None:
        """Carry the commit through, whatever becomes of the clean-up."""
        cancel = self.ports.terminals.cancel
        with trio.move_on_after(WRITE_LIMIT.total_seconds(), shield=True):
            try:
                commit.outcome = await cancel(run_id, by=by, reason=reason, why=why)
            except PortError as error:
                commit.outcome = error
        commit.over.set()

    async def _clean_up(self, run_id: RunId, commit: "_Commit", delete_limit: timedelta) -> None:
        """Route, wait for the authority to delete, delete. Its port errors end here."""
        plan = await self._planned(run_id)
        if plan is None or not plan.direct:
            return
        await commit.over.wait()
        with trio.move_on_after(delete_limit.total_seconds()):
            try:
                jobs = await self._claimed(run_id, plan.direct)
            except PortError as error:
                self._failed(run_id, text_of(error))
                return
            async with trio.open_nursery() as nursery:
                for job in jobs:
                    nursery.start_soon(self._delete, job)
            return
        self._failed(run_id, TOO_LATE)

    async def _planned(self, run_id: RunId) -> rule.CancelPlan | None:
        with trio.move_on_after(WRITE_LIMIT.total_seconds()):
            try:
                resources = await self.ports.sandboxes.resources(run_id)
            except PortError as error:
                self._failed(run_id, text_of(error))
                return None
            plan = rule.plan(resources, self.ports.providers)
            if resources:
                self._tell(run_id, plan)
            return plan
        self._failed(run_id, TOO_LATE)
        return None

    async def _claimed(
        self, run_id: RunId, sandboxes: Sequence[SandboxRef]
    ) -> Sequence[CleanupJob]:
        """The jobs that are ours now: none without the commit, none that a worker has already."""
        return await self.ports.cleanup.claim_sandboxes(
            run_id, sandboxes, self.cleaner.owner, lease=self.limits.cleanup_lease
        )

    async def _delete(self, job: CleanupJob) -> None:
        try:
            facts = await self.cleaner.process(job)
        except PortError as error:
            self._failed(job.key.run_id, text_of(error))
            return
        judged = rule.after_direct_delete(facts)
        if isinstance(judged, rule.DirectFailed):
            self._failed(job.key.run_id, judged.error)

    def _failed(self, run_id: RunId, error: str) -> None:
        self.ports.telemetry.warn(
            CLEANUP, "runtime_sandbox_cleanup_failed", runId=run_id, error=error
        )

    def _tell(self, run_id: RunId, plan: rule.CancelPlan) -> None:
        rules: Json = plan.why.evidence["rules"]
        self.ports.telemetry.info(
            CLEANUP,
            "cancel_cleanup_routed",
            runId=run_id,
            workerOwned=len(plan.worker_owned),
            direct=len(plan.direct),
            rules=rules,
        )


def _unknown() -> CancelOutcome | PortError:
    return OutcomeUnknown("the store did not answer a write in time")


@attrs.define(eq=False)
class _Commit:
    """What became of the commit: unknown until it is over."""

    outcome: CancelOutcome | PortError = attrs.field(factory=_unknown)
    over: trio.Event = attrs.field(factory=trio.Event)
