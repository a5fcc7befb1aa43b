"""Ending or reviving runs that the engine lost (L01, L08, ENGINE §4)."""

from typing import assert_never

import attrs

from deepline.core import recovery, stranded
from deepline.core.limits import Limits
from deepline.core.model.attempt import Attempt
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.run import RunStatus
from deepline.core.placement import placement_key
from deepline.core.projection import COMMITTED_TRIGGER
from deepline.core.recovery import NOTHING, RECOVERED, SKIPPED, Counts
from deepline.core.stranded import StrandedFacts
from deepline.ports.admission import Admission, Submission
from deepline.ports.attempts import Attempts
from deepline.ports.launches import Launches
from deepline.ports.recovery import Recovery, StrandedPage, StrandedRun
from deepline.ports.telemetry import Telemetry
from deepline.ports.terminals import Cancelled, Terminals, Unstarted
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.measures import tell_end
from deepline.runtime.outside_settlement import OutsideSettlement
from deepline.runtime.paced import QuietErrors, run_passes
from deepline.runtime.progress import Progress
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL

PAGE = 500
PAGES_PER_PASS = 10
EVENT = "stranded_run_recovery"


@attrs.define(eq=False)
class StrandedController:
    """Walks over open runs, a bounded part a pass, and brings the stranded ones to an end.

    `dispatcher` delivers what was cancelled, `None` where another process does.
    """

    recovery: Recovery
    attempts: Attempts
    launches: Launches
    admission: Admission
    terminals: Terminals
    settlement: OutsideSettlement
    telemetry: Telemetry
    limits: Limits
    dispatcher: Dispatcher | None = None
    _after: RunId | None = attrs.field(init=False, default=None)
    progress: Progress = attrs.field(init=False, factory=Progress)
    _errors: QuietErrors = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Open the log of single failures."""
        self._errors = QuietErrors(self.telemetry, "stranded_run_settlement_failed")

    async def run(self, stop: Stop) -> None:
        """Run passes until stopped."""
        await run_passes(
            EVENT,
            self.run_pass,
            interval=self.limits.stranded_interval,
            telemetry=self.telemetry,
            stop=stop,
            progress=self.progress,
        )

    async def run_pass(self) -> Counts:
        """Look at the next part of the open runs; raises port errors of the listing."""
        counts = NOTHING
        for _ in range(PAGES_PER_PASS):
            page = await self.recovery.stranded(
                grace=self.limits.stranded_grace, after=self._after, limit=PAGE
            )
            self._after = page.after
            for found in page.runs:
                counts += await self._settle_logged(page, found)
            if self._after is None:
                break
        return counts

    async def _settle_logged(self, page: StrandedPage, found: StrandedRun) -> Counts:
        self.progress.turned()
        try:
            return await self._settle(page, found)
        except Exception as error:  # noqa: BLE001 - one bad run never stops the others
            self._errors.log(error, runId=found.run_id, attempt=found.attempt)
            return NOTHING

    async def _settle(self, page: StrandedPage, found: StrandedRun) -> Counts:
        attempt: Attempt | None = None
        if found.attempt > 0:
            attempt = await self.attempts.read(AttemptKey(found.run_id, found.attempt))
        launch = await self.launches.read(found.run_id, caller="stranded_run_recovery")
        decision = stranded.settle_stranded(
            StrandedFacts(
                now=page.read_at,
                task_state=found.task_state,
                attempt=attempt,
                launch_found=launch is not None,
                limits=self.limits,
            )
        )
        match decision:
            case stranded.LeaveAlone():
                return NOTHING
            case stranded.EndStranded(end=end):
                assert attempt is not None, "only an attempt is ended"
                ended = await self.settlement.end(launch, attempt, end, stranded=True)
                return recovery.counted(ended.outcome)
            case stranded.CancelUnstarted():
                return await self._cancel(found, decision)
            case stranded.SpawnAgain():
                assert launch is not None, "only a known launch is spawned"
                return await self._spawn(found, launch)
            case _:
                assert_never(decision)

    async def _cancel(self, found: StrandedRun, decision: stranded.CancelUnstarted) -> Counts:
        condition = Unstarted(release_id=found.release_id, task_id=found.task_id, task_over=True)
        outcome = await self.terminals.cancel_unstarted(
            found.run_id, condition, reason=decision.reason, why=decision.why
        )
        if not isinstance(outcome, Cancelled):
            return SKIPPED
        tell_end(self.telemetry, RunStatus.CANCELLED, decision.why, launch=None, ended_at=None)
        self.telemetry.error(
            CHANNEL,
            "attempt_preparation_exhausted",
            runId=found.run_id,
            reason=decision.reason,
            cancelled=True,
        )
        if self.dispatcher is not None:
            self.dispatcher.request_terminal(
                found.run_id, trigger=COMMITTED_TRIGGER, projection_started_at=None
            )
        return RECOVERED

    async def _spawn(self, found: StrandedRun, launch: Launch) -> Counts:
        """Give the run a task again, on the lane it rides for life (C05.4, C07.8)."""
        await self.admission.ensure_lane(found.lane, found.release_id)
        receipt = await self.admission.recover_task(
            Submission(
                launch=launch,
                lane=found.lane,
                input_json=None,
                placement_key=placement_key(launch),
                max_engine_attempts=self.limits.max_engine_attempts,
                finaliser_attempts=self.limits.finaliser_attempts,
            )
        )
        self.telemetry.warn(
            CHANNEL, "stranded_run_spawned", runId=found.run_id, created=receipt.task_created
        )
        return RECOVERED if receipt.task_created else SKIPPED
