"""A worker among the lanes: its presence, what it adopts, and when it may leave (C03, C56, C57)."""

from collections.abc import Sequence

import attrs

from deepline.core.drain import DrainEnd
from deepline.core.host_duties import HostDuties
from deepline.core.lane_adoption import AdoptionPolicy, AdoptionSettings
from deepline.core.limits import Limits
from deepline.core.model.identity import Lane, ReleaseId
from deepline.ports.lanes import Lanes
from deepline.runtime.drain_watch import DrainWatch
from deepline.runtime.lane_adoption import LaneAdoption
from deepline.runtime.lane_presence import LanePresence
from deepline.runtime.lane_service import LaneService
from deepline.runtime.slots import Slots
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL

ADOPTED_SHARE = 4
"""An adopted lane gets this part of the own lane's places, and one at least."""


@attrs.define(eq=False)
class WorkerLanes:
    """What a worker does toward the registry of lanes, over its own lane's service."""

    own: LaneService
    lanes: Lanes
    release_id: ReleaseId | None
    policy: AdoptionPolicy
    duties: HostDuties
    presence: LanePresence = attrs.field(init=False)
    adoption: LaneAdoption = attrs.field(init=False)
    _watch: DrainWatch = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Wire the parts."""
        context, limits = self.own.context, self.own.context.limits
        telemetry = context.ports.telemetry
        self.presence = LanePresence(
            lanes=self.lanes,
            telemetry=telemetry,
            limits=limits,
            worker=context.worker,
            release_id=self.release_id,
            own=self.own.lane,
            leaving=self.duties.drain_watch,
        )
        self.adoption = LaneAdoption(
            lanes=self.lanes,
            telemetry=telemetry,
            limits=limits,
            settings=adoption_settings(self.policy, limits),
            own=self.own.lane,
            release_id=self.release_id,
            org_limit=self.own.org_limit,
            make=self._service,
            on_attached=self._attached,
        )
        self._watch = DrainWatch(
            lanes=self.lanes,
            telemetry=telemetry,
            limits=limits,
            lane=self.own.lane,
            in_hand=lambda: self.own.in_hand,
        )

    async def run(self, stop: Stop) -> None:
        """Adopt lanes until stopped; once the own lane is to be left, leave it when it is empty.

        Leaving is a stop that the worker asks of itself.
        """
        if self.duties.adoption:
            await self.adoption.run(stop)
        if stop.requested:
            return
        self.presence.leaves()
        self.own.context.ports.telemetry.info(CHANNEL, "worker_leaving", lane=self.own.lane)
        if await self._watch.run(stop) is DrainEnd.DRAINED:
            stop.request()

    def _service(self, lane: Lane, org_limit: int) -> LaneService:
        own = self.own
        return LaneService(
            context=own.context,
            keeper=own.keeper,
            lane=lane,
            places=Slots(max(1, own.places.total // ADOPTED_SHARE)),
            org_limit=org_limit,
            placement_keys=own.placement_keys,
            chance=own.chance,
        )

    def _attached(self, lanes: Sequence[Lane]) -> None:
        self.presence.serves(lanes)


def adoption_settings(policy: AdoptionPolicy, limits: Limits) -> AdoptionSettings:
    """The bounds of adoption out of those of the runtime."""
    return AdoptionSettings(
        policy=policy,
        quiet_after=limits.lane_quiet,
        lost_after=limits.lane_worker_lost,
        lanes_max=limits.adopted_lanes,
    )
