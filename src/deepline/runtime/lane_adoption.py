"""Adopting lanes whose workers are gone, so that their parked runs wake all the same (C56, L11)."""

from collections.abc import Callable, Sequence

import attrs
import trio

from deepline.core import lane_adoption
from deepline.core.lane_adoption import Adoption, AdoptionSettings
from deepline.core.limits import Limits
from deepline.core.model.identity import Lane, ReleaseId
from deepline.core.model.lane import LaneState
from deepline.ports.errors import PortError
from deepline.ports.lanes import Lanes
from deepline.ports.telemetry import Telemetry
from deepline.runtime.lane_service import LaneService
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL, text_of


@attrs.define(eq=False)
class _Adopted:
    """An adopted lane in service."""

    service: LaneService
    stop: Stop = attrs.field(factory=Stop)


@attrs.define(eq=False, kw_only=True)
class LaneAdoption:
    """Serves lanes beside the worker's own while they need it.

    `make` builds the service of a lane; `on_attached` is told after each change which lanes are
    served now.
    """

    lanes: Lanes
    telemetry: Telemetry
    limits: Limits
    settings: AdoptionSettings
    own: Lane
    release_id: ReleaseId | None
    org_limit: int
    make: Callable[[Lane, int], LaneService]
    on_attached: Callable[[Sequence[Lane]], None]
    _attached: dict[Lane, _Adopted] = attrs.field(init=False, factory=dict)
    _draining: dict[Lane, _Adopted] = attrs.field(init=False, factory=dict)

    @property
    def served(self) -> tuple[Lane, ...]:
        """The lanes that are claimed from."""
        return tuple(self._attached)

    @property
    def in_service(self) -> tuple[Lane, ...]:
        """The lanes that are claimed from, and those of which runs are still in hand (I48)."""
        return (*self._attached, *self._draining)

    @property
    def in_hand(self) -> int:
        """How many runs of adopted lanes are in hand."""
        everybody = (*self._attached.values(), *self._draining.values())
        return sum(one.service.in_hand for one in everybody)

    def lane_woken(self, lane: Lane) -> None:
        """There may be work on this lane."""
        if lane in self._attached:
            self._attached[lane].service.wake()

    def rescan(self) -> None:
        """There may be work on any lane."""
        for adopted in self._attached.values():
            adopted.service.wake()

    async def run(self, stop: Stop) -> None:
        """Adopt until stopped or the worker's own lane is draining, since then it adopts nothing.

        A stop interrupts everything but runs in hand. Returns when all adopted lanes have drained;
        a pass that fails is logged and the next one comes in its time.
        """
        async with trio.open_nursery() as services:
            try:
                while not (stop.requested or await self._pass(stop, services)):
                    with stop.interrupts():
                        await trio.sleep(self.limits.adoption_interval.total_seconds())
            finally:
                for lane in tuple(self._attached):
                    self._detach(lane)

    async def _pass(self, stop: Stop, services: trio.Nursery) -> bool:
        """Look once; True when the own lane is draining."""
        states: Sequence[LaneState] = ()
        try:
            with stop.interrupts():
                states = await self.lanes.all()
        except PortError as error:
            self.telemetry.warn(CHANNEL, "adoption_failed", error=text_of(error))
            return False
        if stop.requested:
            return False
        if any(state.lane == self.own and state.draining for state in states):
            return True
        self._follow(lane_adoption.wanted(states, self.own, self.settings), services)
        return False

    def _follow(self, wanted: Sequence[Adoption], services: trio.Nursery) -> None:
        """Carry out one plan, in one go: no stop can come between a start and its entry."""
        before = self.served
        plan = lane_adoption.plan(
            attached=self._attached,
            draining=self._draining,
            wanted=wanted,
            lanes_max=self.settings.lanes_max,
        )
        for lane in plan.detach:
            self._detach(lane)
        for adoption in plan.attach:
            self._attach(adoption, services)
        for adoption in wanted:
            if adoption.lane in self._attached:
                self._attached[adoption.lane].service.admit_up_to(self._admits(adoption))
        if self.served != before:
            self.on_attached(self.served)

    def _attach(self, adoption: Adoption, services: trio.Nursery) -> None:
        adopted = _Adopted(self.make(adoption.lane, self._admits(adoption)))
        self._attached[adoption.lane] = adopted
        services.start_soon(self._serve, adoption.lane, adopted)
        self.telemetry.info(
            CHANNEL,
            "adoption_attached",
            queue=adoption.lane,
            releaseId=adoption.release_id,
            workerReleaseId=self.release_id,
            rule=adoption.why.rule,
        )

    def _detach(self, lane: Lane) -> None:
        """Claim no more from the lane; what is in hand of it drains beside the rest."""
        adopted = self._attached.pop(lane)
        self._draining[lane] = adopted
        adopted.stop.request()
        self.telemetry.info(CHANNEL, "adoption_detached", queue=lane)

    async def _serve(self, lane: Lane, adopted: _Adopted) -> None:
        try:
            await adopted.service.serve(adopted.stop)
        finally:
            self._draining.pop(lane, None)

    def _admits(self, adoption: Adoption) -> int:
        return self.org_limit if adoption.admits else 0
