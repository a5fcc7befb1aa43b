"""Keeping the newest figures of the whole store in memory, for the metrics to show (C58, F78).

One process at a time counts, under a duty; the others show no figures, so that sums over processes
do not count anything twice. What cannot be counted is not shown: an old figure would look true.
"""

from datetime import datetime, timedelta

import attrs
import trio

from deepline.core.cleanup_job import ALARM_AFTER_FAILURES
from deepline.core.limits import Limits
from deepline.ports.census import Census, Figures
from deepline.ports.clock import Clock
from deepline.ports.errors import PortError
from deepline.ports.telemetry import Telemetry
from deepline.runtime.progress import Progress
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL, text_of

INTERVAL = timedelta(seconds=15)
BUDGET = timedelta(seconds=10)
"""Longest count; past it there are no figures until the next one."""


@attrs.define(eq=False, kw_only=True)
class CensusTaking:
    """Counts every `interval`, as long as its caller holds the duty."""

    census: Census
    telemetry: Telemetry
    clock: Clock
    limits: Limits
    interval: timedelta = INTERVAL
    progress: Progress = attrs.field(init=False, factory=Progress)
    figures: Figures | None = attrs.field(init=False, default=None)
    """The newest count, `None` while this process does not count or cannot."""
    counted_at: datetime | None = attrs.field(init=False, default=None)
    """When this process last counted, by its own clock."""

    async def run(self, stop: Stop) -> None:
        """Count until `stop` is requested. Cancelled at any moment, it leaves no figures."""
        try:
            while not stop.requested:
                self.progress.turned()
                self.figures = await self._take()
                with stop.interrupts():
                    await trio.sleep(self.interval.total_seconds())
        finally:
            self.figures = None

    async def _take(self) -> Figures | None:
        problem = "the store did not count in time"
        with trio.move_on_after(BUDGET.total_seconds()):
            try:
                figures = await self.census.take(
                    silent_after=self.limits.claim_lease, stuck_after=ALARM_AFTER_FAILURES
                )
            except PortError as error:
                problem = text_of(error)
            else:
                self.counted_at = self.clock.now()
                self.progress.succeeded()
                return figures
        self.telemetry.warn(CHANNEL, "census_failed", error=problem)
        return None
