"""Settling runner terminals whose worker died before it could (C35, L02)."""

from datetime import timedelta

import attrs

from deepline.core import recovery as rule
from deepline.core.limits import Limits
from deepline.core.model.identity import Lane
from deepline.core.recovery import NOTHING, SKIPPED, Counts
from deepline.ports.attempts import Attempts
from deepline.ports.launches import Launches
from deepline.ports.recovery import Place, Recovery, UnsettledTerminal
from deepline.ports.telemetry import Telemetry
from deepline.runtime.context import key_of
from deepline.runtime.outside_settlement import OutsideSettlement
from deepline.runtime.paced import QuietErrors, run_passes
from deepline.runtime.progress import Progress
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL

PAGE = 50
PAGES_PER_PASS = 20
EVENT = "completed_runner_recovery"


@attrs.define(eq=False)
class RecoveryController:
    """Goes through stored terminals of open runs, on one lane or, with none, on all.

    A pass goes on where the one before it stopped, so that terminals which cannot be settled never
    keep those behind them waiting.
    """

    recovery: Recovery
    attempts: Attempts
    launches: Launches
    settlement: OutsideSettlement
    telemetry: Telemetry
    limits: Limits
    lane: Lane | None = None
    _after: Place | None = attrs.field(init=False, default=None)
    progress: Progress = attrs.field(init=False, factory=Progress)
    _errors: QuietErrors = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Open the log of single failures."""
        self._errors = QuietErrors(self.telemetry, "completed_runner_settlement_failed")

    async def run(self, stop: Stop) -> None:
        """Run passes until stopped."""
        await run_passes(
            EVENT,
            lambda: self.run_pass(older_than=self.limits.recovery_grace),
            interval=self.limits.overdue_interval,
            telemetry=self.telemetry,
            stop=stop,
            progress=self.progress,
        )

    async def run_pass(self, *, older_than: timedelta) -> Counts:
        """Settle a bounded number of terminals of at least that age.

        Raises port errors of the listing; one terminal that cannot be settled stops no other.
        """
        counts = NOTHING
        for _ in range(PAGES_PER_PASS):
            page = await self.recovery.unsettled(
                lane=self.lane, older_than=older_than, after=self._after, limit=PAGE
            )
            for found in page:
                counts += await self._settle_logged(found)
            self._after = page[-1].place if len(page) == PAGE else None
            if self._after is None:
                break
        return counts

    async def _settle_logged(self, found: UnsettledTerminal) -> Counts:
        self.progress.turned()
        try:
            return await self._settle(found)
        except Exception as error:  # noqa: BLE001 - one bad terminal never stops the others
            self._errors.log(error, runId=found.ref.run_id, attempt=found.ref.attempt)
            return NOTHING

    async def _settle(self, found: UnsettledTerminal) -> Counts:
        run_id = found.ref.run_id
        launch = await self.launches.read(run_id, caller="runner_terminal_recovery")
        attempt = await self.attempts.read(key_of(found.ref))
        decision = rule.settle_terminal(attempt, launch_found=launch is not None)
        if isinstance(decision, rule.Skip):
            self.telemetry.info(
                CHANNEL,
                "recovered_terminal_skipped",
                runId=run_id,
                attempt=found.ref.attempt,
                rule=decision.why.rule,
            )
            return SKIPPED
        assert attempt is not None, "only an attempt is ended"
        ended = await self.settlement.end(launch, attempt, decision)
        return rule.counted(ended.outcome)
