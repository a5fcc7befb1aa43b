"""A worker: one lane's claim loop with the lease keeper and controllers around it (C03, C04).

The order of shutdown is the indentation read from the inside: claiming stops first, runs in
hand drain, then the controllers end, and the lease keeper last, so that no lease is lost while
a run is being settled.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import attrs
import trio

from deepline.core import placement
from deepline.core.host_duties import HostDuties, host_duties
from deepline.core.lane_adoption import AdoptionPolicy
from deepline.core.limits import Limits
from deepline.core.model.identity import Lane, ReleaseId, RunId
from deepline.core.model.placement import PlacementPolicy
from deepline.ports.engine import Wakeups
from deepline.runtime.claim_loop import ClaimLoop
from deepline.runtime.cleanup_controller import CleanupController
from deepline.runtime.context import Context, Placement
from deepline.runtime.controller_role import Controllers, Duty
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.lane_service import LaneService
from deepline.runtime.lease_keeper import LeaseKeeper
from deepline.runtime.outbox_projector import OutboxProjector
from deepline.runtime.persistence import Persistence
from deepline.runtime.slots import Slots
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL, keep_running
from deepline.runtime.worker_lanes import WorkerLanes
from deepline.runtime.worker_ports import WorkerPorts
from deepline.runtime.worker_recovery import recovery_of

BASE_LANE = Lane("runs")


class BadConfiguration(ValueError):
    """The settings cannot work; the message names every reason."""


@attrs.frozen(kw_only=True)
class WorkerSettings:
    """What one worker is and does.

    `name` must be unique per process start (F16). `slots` runs at most are worked on at a time,
    while as many again may be about to end; `org_limit` of one organisation on the lane.
    `project_outbox` also runs the durable projector here, which is the controller's duty where
    there is one; so are `recover_overdue` and `reap_stranded`, which look after every lane (C03.3).
    What was left unsettled on its own lane a worker settles anyway, given the ports for it.
    With `drain_exit` it adopts no lanes and leaves once its own holds nothing (C57).
    """

    name: str
    lane: Lane = BASE_LANE
    release_id: str | None = None
    backend: str = "local"
    policies: Sequence[PlacementPolicy] = placement.POLICIES
    slots: int = 10
    org_limit: int = 1_000
    limits: Limits = attrs.field(factory=Limits)
    project_outbox: bool = False
    recover_overdue: bool = False
    reap_stranded: bool = False
    production: bool = False
    adoption: AdoptionPolicy = AdoptionPolicy.BEGUN
    drain_exit: bool = False

    @property
    def duties(self) -> HostDuties:
        """What the worker does beside claiming."""
        return host_duties(drain_exit=self.drain_exit, recover_overdue=self.recover_overdue)

    def check(self) -> None:
        """Refuse settings that cannot work, all reasons at once. Raises `BadConfiguration`."""
        reasons = list(self.limits.violations())
        if self.slots < 1 or self.org_limit < 1:
            reasons.append("slots and organisation limit must each be at least 1")
        if not self.name.strip():
            reasons.append("a worker needs a name that is unique per process start")
        if reasons:
            raise BadConfiguration("; ".join(reasons))


@attrs.define(eq=False)
class Worker:
    """Runs plays of one lane through the given ports, until stopped.

    Construct it from ports of your own or ours, then `await worker.serve(stop)`.
    """

    ports: WorkerPorts
    settings: WorkerSettings
    chance: random.Random
    keeper: LeaseKeeper = attrs.field(init=False)
    own: LaneService = attrs.field(init=False)
    """Its own lane."""
    _context: Context = attrs.field(init=False)
    _recovery: Controllers | None = attrs.field(init=False)
    _lanes: WorkerLanes | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Check the settings and wire the parts. Raises `BadConfiguration`."""
        self.settings.check()
        settings, limits = self.settings, self.settings.limits
        keys = placement.runnable_keys(settings.backend, settings.policies)
        places = Slots(settings.slots)
        self.keeper = LeaseKeeper(self.ports.engine, limits.claim_lease, self.ports.telemetry)
        self._context = Context(
            ports=self.ports,
            limits=limits,
            worker=settings.name,
            slots=places,
            placement=Placement(backend=settings.backend, policies=settings.policies, keys=keys),
            persistence=Persistence(self.ports.clock, self.ports.telemetry, self.chance),
            cleanup=CleanupController.over(self.ports, limits, settings.name),
            dispatcher=self._dispatcher(),
            chance=self.chance,
            production=settings.production,
        )
        self.own = LaneService(
            context=self._context,
            keeper=self.keeper,
            lane=settings.lane,
            places=places,
            org_limit=settings.org_limit,
            placement_keys=keys,
            chance=self.chance,
        )
        self._recovery = self._wire_recovery()
        self._lanes = self._wire_lanes()

    def _wire_recovery(self) -> Controllers | None:
        asked = {
            Duty.OVERDUE: self.settings.duties.overdue,
            Duty.STRANDED: self.settings.reap_stranded,
        }
        duties = [duty for duty, wanted in asked.items() if wanted]
        try:
            return recovery_of(self._context, self.settings.lane, duties, self.chance)
        except LookupError as error:
            raise BadConfiguration(str(error)) from error

    def _wire_lanes(self) -> WorkerLanes | None:
        settings = self.settings
        if self.ports.lanes is None:
            if settings.drain_exit:
                raise BadConfiguration("drain exit: give the worker its lanes port")
            return None
        return WorkerLanes(
            own=self.own,
            lanes=self.ports.lanes,
            release_id=None if settings.release_id is None else ReleaseId(settings.release_id),
            policy=settings.adoption,
            duties=settings.duties,
        )

    def _dispatcher(self) -> Dispatcher | None:
        if self.ports.ledger is None:
            return None
        return Dispatcher(
            outbox=self.ports.outbox,
            ledger=self.ports.ledger,
            clock=self.ports.clock,
            telemetry=self.ports.telemetry,
            limits=self.settings.limits,
            owner=self.settings.name,
        )

    @property
    def running(self) -> int:
        """How many runs are in hand, of adopted lanes too."""
        adopted = 0 if self._lanes is None else self._lanes.adoption.in_hand
        return self.own.in_hand + adopted

    @property
    def adopted(self) -> tuple[Lane, ...]:
        """The adopted lanes in service, with those that only drain (I48)."""
        return () if self._lanes is None else self._lanes.adoption.in_service

    @property
    def claims(self) -> ClaimLoop:
        """The claim loop of its own lane."""
        return self.own.claims

    async def serve(
        self, stop: Stop, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until `stop` is requested and the runs in hand have drained.

        Returns only when every decided outcome is committed or handed over (F04). Runs that take
        longer than the drain limit are cut and handed over. Cancelling ends it at once; leases
        and durable obligations are then the way back.
        """
        self._announce()
        async with trio.open_nursery() as outer:
            outer.start_soon(self._kept, "lease keeper", self.keeper.run)
            async with trio.open_nursery() as controllers:
                self._start_controllers(controllers)
                if self._recovery is not None:
                    await self._recovery.recover_first()
                task_status.started()
                await self._claim_and_drain(stop)
                controllers.cancel_scope.cancel(reason="stopping")
            outer.cancel_scope.cancel(reason="stopping")
        self.ports.telemetry.info(CHANNEL, "worker_stopped", workerName=self.settings.name)

    async def _claim_and_drain(self, stop: Stop) -> None:
        """Claim, with what else obeys the stop beside it; all have the one drain limit (C04)."""
        async with trio.open_nursery() as beside:
            if self._lanes is not None:
                beside.start_soon(self._kept, "lanes", partial(self._lanes.run, stop))
            if self._recovery is not None:
                beside.start_soon(self._recovery.run_duties, stop)
            await self.own.serve(stop, beside=beside.cancel_scope)

    def _start_controllers(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self._kept, "listener", self._listen)
        if self._lanes is not None:
            nursery.start_soon(self._kept, "lane presence", self._lanes.presence.run)
        if self.ports.providers:
            nursery.start_soon(self._kept, "cleanup", self._context.cleanup.run)
        dispatcher = self._context.dispatcher
        if dispatcher is not None:
            nursery.start_soon(self._kept, "dispatcher", dispatcher.run)
            if self.settings.project_outbox:
                projector = OutboxProjector(
                    outbox=self.ports.outbox,
                    dispatcher=dispatcher,
                    telemetry=self.ports.telemetry,
                    limits=self.settings.limits,
                )
                nursery.start_soon(self._kept, "outbox projector", projector.run)

    async def _kept(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        await keep_running(name, run, telemetry=self.ports.telemetry, chance=self.chance)

    async def _listen(self) -> None:
        await self.ports.engine.listen(
            Wakeups(
                lane_woken=self._lane_woken,
                run_cancelled=self._run_cancelled,
                run_ended=lambda _: None,
                rescan=self._rescan,
            )
        )

    def _lane_woken(self, lane: Lane) -> None:
        if lane == self.settings.lane:
            self.own.wake()
        elif self._lanes is not None:
            self._lanes.adoption.lane_woken(lane)

    def _rescan(self) -> None:
        self.own.wake()
        if self._lanes is not None:
            self._lanes.adoption.rescan()

    def _run_cancelled(self, run_id: RunId) -> None:
        self.keeper.cut(run_id, "cancelled")
        # Its play may still run, and whoever cancelled cannot reach its sandbox.
        self._context.cleanup.wake()

    @property
    def _adopts(self) -> bool:
        is_on = self.settings.adoption is not AdoptionPolicy.OFF
        return self._lanes is not None and self.settings.duties.adoption and is_on

    def _announce(self) -> None:
        settings = self.settings
        self.ports.telemetry.info(
            CHANNEL,
            "worker_started",
            workerName=settings.name,
            releaseId=settings.release_id,
            lane=settings.lane,
            drainExit=settings.drain_exit,
            laneAdoption=self._adopts,
            overdueDetachedRunnerRecovery=settings.duties.overdue,
        )
