"""Recording a verdict while its pass lasts, or without it (C41)."""

import attrs

from deepline.core.model.sandbox import Inspection
from deepline.core.model.stale_runner import RecordedTerminal, StaleRunner
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.sweep_verdict import (
    Refused,
    Stored,
    WriteEnd,
    WriteFailed,
    after_late_write,
    after_write,
    choose_verdict,
    overran,
)
from deepline.ports.liveness_work import VerdictOutcome, VerdictStored
from deepline.runtime.events import emit
from deepline.runtime.store_time import StoreTime
from deepline.runtime.supervision import text_of
from deepline.runtime.sweep.outlasting import Broken, Ended, InTheEnd, Overran, outlasting
from deepline.runtime.sweep.settlements import Settlements
from deepline.runtime.sweep.tally import Tally


@attrs.frozen(eq=False)
class Verdicts:
    """Records verdicts on runners that are proven gone, and has each settled."""

    tally: Tally
    settlements: Settlements
    store_time: StoreTime

    async def record(
        self, runner: StaleRunner, suspension: DetachedSuspension, inspection: Inspection
    ) -> None:
        """Write the verdict and settle it, waiting until the deadline.

        The write itself is never cut short; the store's own limits end a stuck one.
        """
        tally, sweeping = self.tally, self.tally.sweeping
        verdict = choose_verdict(
            runner, suspension, inspection, self.store_time.now(), sweeping.limits
        )

        async def late(end: InTheEnd[VerdictOutcome]) -> None:
            for event in after_late_write(runner, verdict, _written(end)):
                emit(sweeping.ports.telemetry, event)

        answer = await outlasting(
            sweeping.writes,
            lambda: sweeping.ports.work.record_verdict(runner, verdict.terminal, verdict.why),
            deadline=tally.deadline,
            late=late,
        )
        if isinstance(answer, Overran):
            emit(sweeping.ports.telemetry, overran(runner))
            return
        after = after_write(runner, verdict, _written(answer))
        tally.tell(after.told)
        if after.settles:
            recorded = RecordedTerminal(ref=runner.ref, release_id=runner.release_id)
            await self.settlements.settle(recorded, verdict.why)


def _written(end: InTheEnd[VerdictOutcome]) -> WriteEnd:
    match end:
        case Broken(error):
            return WriteFailed(text_of(error))
        case Ended(VerdictStored()):
            return Stored()
        case Ended():
            return Refused()
