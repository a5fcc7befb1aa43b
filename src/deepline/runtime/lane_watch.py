"""Looking over all lanes, so that no run waits for an absent release in silence (F53, C56)."""

from collections.abc import Mapping, Sequence

import attrs
import trio

from deepline.core.lane_standing import stranded_runs
from deepline.core.limits import Limits
from deepline.core.model.identity import Lane
from deepline.core.model.lane import LaneState
from deepline.ports.errors import PortError
from deepline.ports.lanes import Lanes
from deepline.ports.telemetry import Telemetry
from deepline.runtime.progress import Progress
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL, text_of


@attrs.define(eq=False, kw_only=True)
class LaneWatch:
    """Reads the registry now and then, and says when a lane becomes stranded and when no more."""

    lanes: Lanes
    telemetry: Telemetry
    limits: Limits
    progress: Progress = attrs.field(init=False, factory=Progress)
    stranded: Mapping[str, int] = attrs.field(init=False, factory=dict[str, int])
    """How many runs of which release nobody serves, as read last."""
    _known: frozenset[Lane] = attrs.field(init=False, default=frozenset())

    async def run(self, stop: Stop) -> None:
        """Look until stopped. A store that is away is looked at again in time."""
        while not stop.requested:
            self.progress.turned()
            try:
                self._look(await self.lanes.all())
                self.progress.succeeded()
            except PortError as error:
                self.telemetry.warn(CHANNEL, "lane_watch_failed", error=text_of(error))
            with stop.interrupts():
                await trio.sleep(self.limits.adoption_interval.total_seconds())

    def _look(self, states: Sequence[LaneState]) -> None:
        found = {state.lane: stranded_runs(state, self.limits.lane_worker_lost) for state in states}
        self.stranded = {state.release_id or state.lane: found[state.lane] for state in states}
        stranded = frozenset(lane for lane, runs in found.items() if runs)
        for state in states:
            if state.lane in stranded - self._known:
                self.telemetry.warn(
                    CHANNEL,
                    "lane_stranded",
                    lane=state.lane,
                    releaseId=state.release_id,
                    runs=found[state.lane],
                    advice="start a worker of the release, or run `deepline lanes adopt`",
                )
        for lane in sorted(self._known - stranded):
            self.telemetry.info(CHANNEL, "lane_not_stranded", lane=lane)
        self._known = stranded
