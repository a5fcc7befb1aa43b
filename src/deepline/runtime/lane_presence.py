"""Saying which lanes a worker serves, so that others know which need them (C56, C57)."""

from collections.abc import Sequence

import attrs
import trio

from deepline.core.limits import Limits
from deepline.core.model.identity import Lane, ReleaseId
from deepline.ports.errors import PortError
from deepline.ports.lanes import LaneBeat, Lanes, ServedLane
from deepline.ports.telemetry import Telemetry
from deepline.runtime.supervision import CHANNEL, text_of


@attrs.define(eq=False, kw_only=True)
class LanePresence:
    """One worker's beats in the registry of lanes."""

    lanes: Lanes
    telemetry: Telemetry
    limits: Limits
    worker: str
    release_id: ReleaseId | None
    own: Lane
    leaving: bool
    _adopted: Sequence[Lane] = attrs.field(init=False, default=())
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)

    def serves(self, adopted: Sequence[Lane]) -> None:
        """The lanes served beside the own one are now these; that is said at once."""
        self._adopted = tuple(adopted)
        self._changed.set()

    def leaves(self) -> None:
        """From now on the worker is about to leave; that is said at once."""
        self.leaving = True
        self._changed.set()

    async def run(self) -> None:
        """Beat until cancelled, then say that the worker serves nothing any more."""
        try:
            while True:
                self._changed = trio.Event()
                await self.beat()
                with trio.move_on_after(self.limits.lane_beat.total_seconds()):
                    await self._changed.wait()
        finally:
            with trio.move_on_after(self.limits.last_write.total_seconds(), shield=True):
                await self._say_goodbye()

    async def beat(self) -> None:
        """Say once what is served. A store that is away is said, and asked again in time."""
        served = (ServedLane(self.own), *(ServedLane(lane, adopted=True) for lane in self._adopted))
        try:
            await self.lanes.beat(
                LaneBeat(
                    worker=self.worker,
                    release_id=self.release_id,
                    served=served,
                    leaving=self.leaving,
                )
            )
        except PortError as error:
            self.telemetry.warn(CHANNEL, "lane_beat_failed", error=text_of(error))

    async def _say_goodbye(self) -> None:
        try:
            await self.lanes.left(self.worker)
        except PortError as error:
            self.telemetry.warn(CHANNEL, "lane_beat_failed", error=text_of(error))
