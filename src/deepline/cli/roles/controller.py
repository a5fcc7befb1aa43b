"""A controller process: duties that belong to no lane (C02 role b, C26).

The outbox projector delivers what nobody delivered at once, and what no worker ends is ended here
(C35, C37). Any number of controllers may run: what each works on is leased or fenced.
"""

import random

import attrs
import trio

from deepline.adapters.http.executor_tokens import TokenCredentials
from deepline.adapters.http.ledger import HttpLedger
from deepline.adapters.http.limited_client import LimitedClient
from deepline.adapters.telemetry import SchedulerLabels
from deepline.cli.health_endpoint import Health, listening_on, serve_health
from deepline.cli.instance_name import instance_name
from deepline.cli.observability import Observed, observed_process, snapshot_of
from deepline.cli.opened_store import CHANNEL, check_schema, opened_store
from deepline.cli.outside import Outside
from deepline.cli.settings.controller import ControllerRole
from deepline.runtime.controller_role import ControllerPorts, Controllers, ControllerSettings
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.outbox_projector import RUNS_PER_WAVE, OutboxProjector
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import keep_running

_WAVE_MARGIN_S = 60.0


@attrs.define(eq=False)
class Controller:
    """The duties of one controller over an open store."""

    role: ControllerRole
    name: str
    projector: OutboxProjector
    recovery: Controllers
    seen: Observed
    chance: random.Random
    last_turn_at: float | None = None
    """Trio time at which the projector last began a wave or failed to."""

    async def serve(
        self, stop: Stop, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until `stop` is requested; what is in hand ends within the drain limit."""
        telemetry = self.seen.telemetry
        telemetry.info(CHANNEL, "controller_started", controllerName=self.name)
        async with trio.open_nursery() as duties:
            duties.start_soon(self._project, stop)
            duties.start_soon(self.recovery.serve, stop)
            task_status.started()
            await stop.wait()
            drain_s = self.role.limits.drain.total_seconds()
            duties.cancel_scope.deadline = trio.current_time() + drain_s
        telemetry.info(CHANNEL, "controller_stopped", controllerName=self.name)

    async def _project(self, stop: Stop) -> None:
        async def waves() -> None:
            while not stop.requested:
                self.last_turn_at = trio.current_time()
                if await self.projector.run_wave() < RUNS_PER_WAVE:
                    with stop.interrupts():
                        await trio.sleep(self.role.limits.outbox_wave.total_seconds())

        await keep_running(
            "outbox projector", waves, telemetry=self.seen.telemetry, chance=self.chance
        )

    def health(self) -> Health:
        """Alive while waves are tried, ready while the store answers them."""
        now = trio.current_time()
        turned = None if self.last_turn_at is None else now - self.last_turn_at
        waved = self.projector.last_wave_at
        answered = None if waved is None else now - waved
        alive = turned is not None and turned < _WAVE_MARGIN_S
        ready = alive and answered is not None and answered < _WAVE_MARGIN_S
        return Health(
            alive=alive, ready=ready, ages_s={"outboxLoop": turned, "outboxWave": answered}
        )


def make_controller(role: ControllerRole, name: str, outside: Outside) -> Controller:
    """Wire a controller over an open store."""
    credentials = TokenCredentials(
        internal_token=role.internal_token, front_door_bypass=role.front_door_bypass
    )
    seen, outbox = outside.seen, outside.store.ports.outbox
    dispatcher = Dispatcher(
        outbox=outbox,
        ledger=HttpLedger(outside.client, credentials),
        clock=seen.clock,
        telemetry=seen.telemetry,
        limits=role.limits,
        owner=name,
    )
    projector = OutboxProjector(
        outbox=outbox,
        dispatcher=dispatcher,
        telemetry=seen.telemetry,
        limits=role.limits,
    )
    return Controller(
        role=role,
        name=name,
        projector=projector,
        recovery=make_recovery(role, name, outside),
        seen=seen,
        chance=outside.chance,
    )


def make_recovery(role: ControllerRole, name: str, outside: Outside) -> Controllers:
    """Wire the duties toward runs that no worker ends."""
    ports, seen = outside.store.ports, outside.seen
    credentials = TokenCredentials(
        internal_token=role.internal_token, front_door_bypass=role.front_door_bypass
    )
    return Controllers(
        ports=ControllerPorts(
            recovery=ports.recovery,
            attempts=ports.attempts,
            terminals=ports.terminals,
            launches=ports.launches,
            admission=ports.admission,
            sheets=ports.sheets,
            receipts=ports.receipts,
            usage=ports.usage,
            outbox=ports.outbox,
            telemetry=seen.telemetry,
            clock=seen.clock,
            ledger=HttpLedger(outside.client, credentials),
        ),
        settings=ControllerSettings(
            name=name, limits=role.limits, production=role.process.production
        ),
        chance=outside.chance,
    )


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
    secrets = [role.internal_token, role.front_door_bypass or "", role.store.dsn]
    with observed_process(process, labels, secrets) as seen:
        async with listening_on(process.metrics_host, process.metrics_port) as bound:
            await check_schema(role.store)
            async with (
                opened_store(role.store, role.limits, seen.telemetry, who=name) as store,
                LimitedClient() as client,
            ):
                outside = Outside(store=store, client=client, seen=seen, chance=chance)
                controller = make_controller(role, name, outside)
                seen.snapshot = lambda: snapshot_of(store.counts())
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(serve_health, bound, controller.health, seen.metrics.render)
                    task_status.started(name)
                    await controller.serve(stop)
                    nursery.cancel_scope.cancel(reason="the controller has stopped")
