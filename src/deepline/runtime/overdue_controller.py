"""Ending parked runners past their ceiling, whatever became of their lane (C37, C38, L03)."""

import attrs

from deepline.core import overdue as rule
from deepline.core import recovery as outside
from deepline.core.limits import Limits
from deepline.core.model.identity import AttemptKey
from deepline.core.recovery import NOTHING, SKIPPED, Counts
from deepline.core.verdicts import EXPIRED_EVENT
from deepline.ports.attempts import Attempts
from deepline.ports.clock import Clock
from deepline.ports.launches import Launches
from deepline.ports.recovery import OverdueAttempt, Place, Recovery
from deepline.ports.telemetry import Telemetry
from deepline.runtime.context import key_of
from deepline.runtime.outside_settlement import OutsideSettlement
from deepline.runtime.paced import QuietErrors, run_passes
from deepline.runtime.progress import Progress
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL

PAGE = 50
PAGES_PER_PASS = 20
UNREADABLE = 100
REMEMBERED = 10_000
EVENT = "overdue_detached_runner_recovery"


@attrs.define(eq=False)
class OverdueController:
    """Claims overdue attempts of every lane, one by one, and ends each under its own fence.

    `owner` is unique per process. What it claimed and could not end is a candidate again after a
    lease, for whoever comes first.
    """

    recovery: Recovery
    attempts: Attempts
    launches: Launches
    settlement: OutsideSettlement
    telemetry: Telemetry
    clock: Clock
    limits: Limits
    owner: str
    progress: Progress = attrs.field(init=False, factory=Progress)
    _errors: QuietErrors = attrs.field(init=False)
    _reported: set[AttemptKey] = attrs.field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        """Open the log of single failures."""
        self._errors = QuietErrors(self.telemetry, "overdue_detached_runner_settlement_failed")

    async def run(self, stop: Stop) -> None:
        """Run passes until stopped."""
        await run_passes(
            EVENT,
            self.run_pass,
            interval=self.limits.overdue_interval,
            telemetry=self.telemetry,
            stop=stop,
            progress=self.progress,
        )

    async def run_pass(self) -> Counts:
        """End a bounded number of overdue attempts; raises port errors of the listing."""
        counts, after = NOTHING, None
        for _ in range(PAGES_PER_PASS):
            page = await self._page(after)
            for found in page:
                counts += await self._end_logged(found)
            if len(page) < PAGE:
                break
            after = page[-1].place
        await self._report_unreadable()
        return counts

    async def _page(self, after: Place | None) -> list[OverdueAttempt]:
        return list(
            await self.recovery.overdue(lease=self.limits.claim_lease, after=after, limit=PAGE)
        )

    async def _end_logged(self, found: OverdueAttempt) -> Counts:
        self.progress.turned()
        try:
            return await self._end(found)
        except Exception as error:  # noqa: BLE001 - one bad attempt never stops the others
            self._errors.log(error, runId=found.ref.run_id, attempt=found.ref.attempt)
            return NOTHING

    async def _end(self, found: OverdueAttempt) -> Counts:
        lease = self.limits.claim_lease
        if not await self.recovery.claim_overdue(found.ref, owner=self.owner, lease=lease):
            return NOTHING  # another hand has it, so it is no candidate of ours
        launch = await self.launches.read(found.ref.run_id, caller="overdue_ceiling_recovery")
        attempt = await self.attempts.read(key_of(found.ref))
        decision = rule.settle_overdue(
            self.clock.now(), attempt, self.limits, launch_found=launch is not None
        )
        if isinstance(decision, outside.Skip):
            self._skipped(found, decision)
            return SKIPPED
        assert attempt is not None, "only an attempt is ended"
        ended = await self.settlement.end(launch, attempt, decision.end)
        if decision.report is not None and ended.result == decision.end.plan.result:
            self.telemetry.error(CHANNEL, EXPIRED_EVENT, **decision.report)
        return outside.counted(ended.outcome)

    def _skipped(self, found: OverdueAttempt, decision: outside.Skip) -> None:
        self.telemetry.warn(
            CHANNEL,
            "overdue_detached_runner_skipped",
            runId=found.ref.run_id,
            attempt=found.ref.attempt,
            rule=decision.why.rule,
        )

    async def _report_unreadable(self) -> None:
        """Name, once each, the attempts whose ceiling nobody can read (Q20)."""
        found = await self.recovery.unreadable(limit=UNREADABLE)
        fresh = [key for key in found if key not in self._reported]
        if len(self._reported) + len(fresh) > REMEMBERED:
            self._reported.clear()
        for key in fresh:
            self._reported.add(key)
            self.telemetry.warn(
                CHANNEL,
                "overdue_detached_runner_unreadable",
                runId=key.run_id,
                attempt=key.attempt,
            )
