"""A controller process: duties that belong to no lane (C02 role b, C26, C35, C37, C43).

The outbox projector delivers what nobody delivered at once; runs that no worker ends are ended; the
sweep looks after silent runners. Any number of controllers may run: what each works on is leased or
fenced, and one of them at a time sweeps.
"""

import random
from collections.abc import Mapping, Sequence
from functools import partial

import attrs
import trio

from deepline.adapters.http.executor_tokens import TokenCredentials
from deepline.adapters.http.ledger import HttpLedger
from deepline.adapters.http.limited_client import LimitedClient
from deepline.adapters.telemetry import SchedulerLabels
from deepline.adapters.telemetry.census_series import CensusSeries
from deepline.adapters.telemetry.controller_series import ControllerSeries, ControllerSnapshot
from deepline.cli.health_endpoint import Health, listening_on, serve_health
from deepline.cli.instance_name import instance_name
from deepline.cli.observability import Observed, observed_process, snapshot_of
from deepline.cli.opened_store import CHANNEL, check_schema, opened_store
from deepline.cli.outside import Outside
from deepline.cli.providers import opened_providers
from deepline.cli.roles.controller_duties import make_orphan_sweep, make_recovery, make_sweep
from deepline.cli.settings.controller import ControllerRole
from deepline.core.duty_health import DutyPace, failing, stuck
from deepline.core.sweep import SweepMode
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.runtime.census_taking import CensusTaking
from deepline.runtime.controller_role import Controllers
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.duty import DutyHolder
from deepline.runtime.lane_watch import LaneWatch
from deepline.runtime.orphan_sweep import DUTY as ORPHAN_DUTY
from deepline.runtime.orphan_sweep import OrphanSweep
from deepline.runtime.outbox_projector import RUNS_PER_WAVE, OutboxProjector
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import keep_running
from deepline.runtime.sweep import LivenessSweep

SWEEP_DUTY = "sweep"
CENSUS_DUTY = "census"
OUTBOX_DUTY = "outboxLoop"
LANES_DUTY = "laneWatch"
_WAVE_MARGIN_S = 60.0


@attrs.define(eq=False)
class Controller:
    """The duties of one controller over an open store."""

    role: ControllerRole
    name: str
    projector: OutboxProjector
    seen: Observed
    chance: random.Random
    recovery: Controllers
    sweep: LivenessSweep | None
    """`None` when it is switched off."""
    duty: DutyHolder
    census: CensusTaking
    census_duty: DutyHolder
    orphans: OrphanSweep | None
    """`None` when it is switched off."""
    orphan_duty: DutyHolder
    lane_watch: LaneWatch
    inspected: Sequence[str]
    """The providers whose sandboxes can be looked at from here."""
    serves_since: float | None = attrs.field(init=False, default=None)
    """Trio time since which it serves."""

    async def serve(
        self, stop: Stop, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until `stop` is requested; what is in hand ends within the drain limit."""
        telemetry = self.seen.telemetry
        self.serves_since = trio.current_time()
        telemetry.info(
            CHANNEL,
            "controller_started",
            controllerName=self.name,
            livenessSweep=self.role.sweep_mode.value,
            orphanSweep=self.role.orphans.mode.value,
            inspectedProviders=list(self.inspected),
        )
        async with trio.open_nursery() as duties:
            duties.start_soon(self._project, stop)
            duties.start_soon(self.recovery.serve, stop)
            duties.start_soon(self._count, stop)
            duties.start_soon(self._watch_lanes, stop)
            if self.sweep is not None:
                duties.start_soon(self._sweep, self.sweep, stop)
            if self.orphans is not None:
                duties.start_soon(self._sweep_orphans, self.orphans, stop)
            task_status.started()
            await stop.wait()
            drain_s = self.role.limits.drain.total_seconds()
            duties.cancel_scope.deadline = trio.current_time() + drain_s
        telemetry.info(CHANNEL, "controller_stopped", controllerName=self.name)

    async def _project(self, stop: Stop) -> None:
        async def waves() -> None:
            while not stop.requested:
                if await self.projector.run_wave() < RUNS_PER_WAVE:
                    with stop.interrupts():
                        await trio.sleep(self.role.limits.outbox_wave.total_seconds())

        await keep_running(
            "outbox projector", waves, telemetry=self.seen.telemetry, chance=self.chance
        )

    async def _sweep(self, sweep: LivenessSweep, stop: Stop) -> None:
        await keep_running(
            "liveness sweep",
            partial(self.duty.run, stop, partial(sweep.run, stop)),
            telemetry=self.seen.telemetry,
            chance=self.chance,
        )

    async def _count(self, stop: Stop) -> None:
        await keep_running(
            "census",
            partial(self.census_duty.run, stop, partial(self.census.run, stop)),
            telemetry=self.seen.telemetry,
            chance=self.chance,
        )

    async def _sweep_orphans(self, sweep: OrphanSweep, stop: Stop) -> None:
        await keep_running(
            "orphan sweep",
            partial(self.orphan_duty.run, stop, partial(sweep.run, stop)),
            telemetry=self.seen.telemetry,
            chance=self.chance,
        )

    async def _watch_lanes(self, stop: Stop) -> None:
        await keep_running(
            "lane watch",
            partial(self.lane_watch.run, stop),
            telemetry=self.seen.telemetry,
            chance=self.chance,
        )

    def snapshot(self) -> ControllerSnapshot:
        """What the metrics show; from memory alone."""
        held = (
            (self.census_duty, self.census),
            (self.duty, self.sweep),
            (self.orphan_duty, self.orphans),
        )
        duties = {duty.duty: duty.is_held for duty, sweep in held if sweep is not None}
        stuck_now = stuck(self._paces())
        stuck_duties = {one.name: one.name in stuck_now for one in self._paces()}
        if self.sweep is None:
            return ControllerSnapshot(
                duties=duties, stuck=stuck_duties, stranded=self.lane_watch.stranded
            )
        succeeded = self.sweep.last_success_at
        return ControllerSnapshot(
            duties=duties,
            stuck=stuck_duties,
            sweep_succeeded_at_s=None if succeeded is None else succeeded.timestamp(),
            blind={name: name in self.sweep.blind_providers for name in self.inspected},
            stranded=self.lane_watch.stranded,
        )

    def health(self) -> Health:
        """Alive while every duty that it holds turns, ready while the store answers besides."""
        paces = self._paces()
        stuck_now, failing_now = stuck(paces), failing(paces)
        waved_at = self.projector.progress.succeeded_at
        answered = None if waved_at is None else trio.current_time() - waved_at
        is_answered = answered is not None and answered < _WAVE_MARGIN_S
        alive = not stuck_now
        ages = {one.name: one.turned.total_seconds() if one.held else None for one in paces}
        return Health(
            alive=alive,
            ready=alive and is_answered and not failing_now,
            ages_s={**ages, "outboxWave": answered},
            stuck=stuck_now,
            failing=failing_now,
        )

    def _paces(self) -> Sequence[DutyPace]:
        """How every duty gets on that this process holds or waits for."""
        limits = self.role.limits
        mine = [
            (self.projector.progress, OUTBOX_DUTY, limits.outbox_wave),
            (self.lane_watch.progress, LANES_DUTY, limits.adoption_interval),
            *(
                (progress, duty.value, every)
                for duty, (progress, every) in self.recovery.progress().items()
            ),
        ]
        leased = [(self.census.progress, self.census_duty, self.census.interval)]
        if self.sweep is not None:
            leased.append((self.sweep.progress, self.duty, self.role.sweep.interval))
        if self.orphans is not None:
            leased.append((self.orphans.progress, self.orphan_duty, self.role.orphans.interval))
        return [
            *(
                one.pace(name, held_since=self.serves_since, every=every)
                for one, name, every in mine
            ),
            *(
                one.pace(duty.duty, held_since=duty.held_since, every=every)
                for one, duty, every in leased
            ),
        ]


def make_controller(
    role: ControllerRole,
    name: str,
    outside: Outside,
    providers: Mapping[str, SandboxProvider],
) -> Controller:
    """Wire a controller over an open store, and show its series among the process's metrics."""
    credentials = TokenCredentials(
        internal_token=role.internal_token, front_door_bypass=role.front_door_bypass
    )
    seen, ports = outside.seen, outside.store.ports
    dispatcher = Dispatcher(
        outbox=ports.outbox,
        ledger=HttpLedger(outside.client, credentials),
        clock=seen.clock,
        telemetry=seen.telemetry,
        limits=role.limits,
        owner=name,
    )
    projector = OutboxProjector(
        outbox=ports.outbox,
        dispatcher=dispatcher,
        telemetry=seen.telemetry,
        limits=role.limits,
    )
    census = CensusTaking(
        census=ports.census, telemetry=seen.telemetry, clock=seen.clock, limits=role.limits
    )

    def duty_of(name_of_duty: str) -> DutyHolder:
        return DutyHolder(
            duties=ports.duties,
            duty=name_of_duty,
            owner=name,
            telemetry=seen.telemetry,
            lease=role.duty_lease,
        )

    is_swept = role.sweep_mode is not SweepMode.OFF
    finds_orphans = role.orphans.mode is not SweepMode.OFF
    controller = Controller(
        role=role,
        name=name,
        projector=projector,
        seen=seen,
        chance=outside.chance,
        recovery=make_recovery(role, name, outside),
        sweep=make_sweep(role, outside, dispatcher, providers) if is_swept else None,
        duty=duty_of(SWEEP_DUTY),
        census=census,
        census_duty=duty_of(CENSUS_DUTY),
        orphans=make_orphan_sweep(role, outside, providers) if finds_orphans else None,
        orphan_duty=duty_of(ORPHAN_DUTY),
        lane_watch=LaneWatch(lanes=ports.lanes, telemetry=seen.telemetry, limits=role.limits),
        inspected=tuple(providers),
    )
    seen.figures = lambda: census.figures
    registry = seen.metrics.registry
    registry.register(ControllerSeries(controller.snapshot))
    registry.register(CensusSeries(seen.figures, lambda: census.counted_at))
    return controller


async def serve_controller(
    role: ControllerRole,
    stop: Stop,
    *,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `stop` is requested. Refuses to start as a worker does."""
    chance = random.SystemRandom()
    name = instance_name(role.name, chance)
    process = role.process
    labels = SchedulerLabels(schema=role.store.schema, worker_name=name)
    secrets = [
        role.internal_token,
        role.front_door_bypass or "",
        role.store.dsn,
        role.daytona.api_key,
        role.modal.token_secret,
    ]
    with observed_process(process, labels, secrets) as seen:
        async with listening_on(process.metrics_host, process.metrics_port) as bound:
            await check_schema(role.store)
            async with (
                opened_store(role.store, role.limits, seen.telemetry, who=name) as store,
                LimitedClient() as client,
                opened_providers(role) as providers,
            ):
                outside = Outside(store=store, client=client, seen=seen, chance=chance)
                controller = make_controller(role, name, outside, providers)
                seen.snapshot = lambda: snapshot_of(store.counts())
                seen.show_loops(lambda: controller.health().ages_s)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(serve_health, bound, controller.health, seen.metrics.render)
                    task_status.started(name)
                    await controller.serve(stop)
                    nursery.cancel_scope.cancel(reason="the controller has stopped")
