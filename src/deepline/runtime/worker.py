"""A worker: one lane's claim loop with the lease keeper and controllers around it (C03, C04).

The order of shutdown is the indentation read from the inside: claiming stops first, runs in
hand drain, then the controllers end, and the lease keeper last, so that no lease is lost while
a run is being settled.
"""

import random
from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio

from deepline.core import placement
from deepline.core.limits import Limits
from deepline.core.model.claim import Prepared
from deepline.core.model.identity import Lane, RunId
from deepline.core.model.placement import PlacementPolicy
from deepline.ports.engine import Wakeups
from deepline.runtime.claim_loop import ClaimLoop, ClaimSettings
from deepline.runtime.claim_work import ClaimWork
from deepline.runtime.cleanup_controller import CleanupController
from deepline.runtime.context import Context, Placement
from deepline.runtime.controller_role import Controllers, Duty
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.lease_keeper import LeaseKeeper
from deepline.runtime.outbox_projector import OutboxProjector
from deepline.runtime.persistence import Persistence
from deepline.runtime.slots import Slots
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL, keep_running
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
    claims: ClaimLoop = attrs.field(init=False)
    _slots: Slots = attrs.field(init=False)
    _context: Context = attrs.field(init=False)
    _work: ClaimWork = attrs.field(init=False)
    _recovery: Controllers | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Check the settings and wire the parts. Raises `BadConfiguration`."""
        self.settings.check()
        settings, limits = self.settings, self.settings.limits
        keys = placement.runnable_keys(settings.backend, settings.policies)
        self._slots = Slots(settings.slots)
        self.keeper = LeaseKeeper(self.ports.engine, limits.claim_lease, self.ports.telemetry)
        self.claims = ClaimLoop(
            attempts=self.ports.attempts,
            engine=self.ports.engine,
            telemetry=self.ports.telemetry,
            chance=self.chance,
            slots=self._slots,
            settings=ClaimSettings(
                lane=settings.lane,
                worker=settings.name,
                slots=settings.slots,
                org_limit=settings.org_limit,
                lease=limits.claim_lease,
                safety_poll=limits.safety_poll,
                placement_keys=keys,
            ),
        )
        self._context = Context(
            ports=self.ports,
            limits=limits,
            worker=settings.name,
            slots=self._slots,
            placement=Placement(backend=settings.backend, policies=settings.policies, keys=keys),
            persistence=Persistence(self.ports.clock, self.ports.telemetry, self.chance),
            cleanup=CleanupController.over(self.ports, limits, settings.name),
            dispatcher=self._dispatcher(),
            chance=self.chance,
            production=settings.production,
        )
        self._work = ClaimWork(self._context)
        self._recovery = self._wire_recovery()

    def _wire_recovery(self) -> Controllers | None:
        asked = {
            Duty.OVERDUE: self.settings.recover_overdue,
            Duty.STRANDED: self.settings.reap_stranded,
        }
        duties = [duty for duty, wanted in asked.items() if wanted]
        try:
            return recovery_of(self._context, self.settings.lane, duties, self.chance)
        except LookupError as error:
            raise BadConfiguration(str(error)) from error

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
        """How many runs are in hand."""
        return self._slots.in_hand

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
                self._start_controllers(controllers, stop)
                if self._recovery is not None:
                    await self._recovery.recover_first()
                task_status.started()
                await self._claim_and_drain(stop)
                controllers.cancel_scope.cancel(reason="stopping")
            outer.cancel_scope.cancel(reason="stopping")
        self.ports.telemetry.info(CHANNEL, "worker_stopped", workerName=self.settings.name)

    async def _claim_and_drain(self, stop: Stop) -> None:
        async with trio.open_nursery() as runs:

            def start(prepared: Prepared, claimed_at: float) -> None:
                runs.start_soon(self._run_one, prepared, claimed_at)

            await self.claims.run(stop, start)
            drain_s = self.settings.limits.drain.total_seconds()
            runs.cancel_scope.deadline = trio.current_time() + drain_s

    async def _run_one(self, prepared: Prepared, claimed_at: float) -> None:
        try:
            with self.keeper.hold(prepared.claim, claimed_at):
                await self._work.work(prepared)
        finally:
            self._slots.leave(prepared.claim)

    def _start_controllers(self, nursery: trio.Nursery, stop: Stop) -> None:
        nursery.start_soon(self._kept, "listener", self._listen)
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
        if self._recovery is not None:
            nursery.start_soon(self._recovery.run_duties, stop)

    async def _kept(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        await keep_running(name, run, telemetry=self.ports.telemetry, chance=self.chance)

    async def _listen(self) -> None:
        await self.ports.engine.listen(
            Wakeups(
                lane_woken=self._lane_woken,
                run_cancelled=self._run_cancelled,
                run_ended=lambda _: None,
                rescan=self._slots.wake,
            )
        )

    def _lane_woken(self, lane: Lane) -> None:
        if lane == self.settings.lane:
            self._slots.wake()

    def _run_cancelled(self, run_id: RunId) -> None:
        self.keeper.cut(run_id, "cancelled")
        # Its play may still run, and whoever cancelled cannot reach its sandbox.
        self._context.cleanup.wake()

    def _announce(self) -> None:
        settings = self.settings
        self.ports.telemetry.info(
            CHANNEL,
            "worker_started",
            workerName=settings.name,
            releaseId=settings.release_id,
            lane=settings.lane,
            drainExit=False,
            laneAdoption=False,
            overdueDetachedRunnerRecovery=settings.recover_overdue,
        )
