"""Watching a worker's own lane until it holds nothing, so that the worker may leave (C57, Q25)."""

from collections.abc import Callable

import attrs
import trio

from deepline.core import drain
from deepline.core.drain import Drained, DrainEnd, KeepServing
from deepline.core.limits import Limits
from deepline.core.model.identity import Lane
from deepline.ports.errors import PortError
from deepline.ports.lanes import Lanes
from deepline.ports.telemetry import Telemetry
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL, text_of


@attrs.define(eq=False, kw_only=True)
class DrainWatch:
    """Reads the registry now and then. `in_hand` says how many runs the worker still has."""

    lanes: Lanes
    telemetry: Telemetry
    limits: Limits
    lane: Lane
    in_hand: Callable[[], int]

    async def run(self, stop: Stop) -> DrainEnd:
        """Return once the lane holds nothing for this worker, or a stop is requested.

        A reading that fails counts as none: the worker stays.
        """
        readings = 0
        while not stop.requested:
            decision = await self._read(readings)
            if isinstance(decision, Drained):
                self.telemetry.info(CHANNEL, "lane_drained", lane=self.lane, rule=decision.why.rule)
                return DrainEnd.DRAINED
            readings = decision.readings
            with stop.interrupts():
                await trio.sleep(self.limits.drain_poll.total_seconds())
        return DrainEnd.STOPPED

    async def _read(self, readings: int) -> Drained | KeepServing:
        try:
            state = await self.lanes.read(self.lane)
        except PortError as error:
            self.telemetry.warn(CHANNEL, "drain_poll_failed", error=text_of(error))
            return KeepServing(readings=0, why=drain.UNREAD)
        return drain.next_reading(
            state,
            in_hand=self.in_hand(),
            readings=readings,
            lost_after=self.limits.lane_worker_lost,
        )
