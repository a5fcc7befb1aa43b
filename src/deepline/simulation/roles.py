"""The programs that processes run: a worker and a controller, wired as the product wires them."""

from collections.abc import Sequence
from functools import partial

import attrs
import trio

from deepline.adapters.memory import NO_FAULTS, Faults, MemoryLedger, MemoryPorts, open_ports
from deepline.core import placement
from deepline.core.model.identity import ReleaseId
from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.sandbox import Operation, Resources
from deepline.core.queues import lane_of_release
from deepline.ports.errors import PortError
from deepline.runtime.cleanup_controller import CleanupController
from deepline.runtime.controller_role import ControllerPorts, Controllers, ControllerSettings
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.outbox_projector import OutboxProjector
from deepline.runtime.sandbox_backend import SandboxBackend
from deepline.runtime.sandbox_settings import SandboxSettings
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import keep_running
from deepline.runtime.worker import Worker, WorkerSettings
from deepline.runtime.worker_ports import WorkerPorts
from deepline.simulation.attached import SPECIAL, PlayBackend
from deepline.simulation.life import Life
from deepline.simulation.link import Link
from deepline.simulation.sandboxes import (
    PROVIDER,
    ProviderFactory,
    Seat,
    Site,
    WatchedProvider,
)
from deepline.simulation.stage import Stage
from deepline.simulation.starting import Starting
from deepline.simulation.sweeps import SweepSeat, sweep_silent
from deepline.simulation.told import ToldTelemetry
from deepline.simulation.witness import (
    WitnessedAttempts,
    WitnessedLanes,
    WitnessedReceipts,
    WitnessedTerminals,
    WitnessedTokens,
)

SLOTS = 3
ORG_LIMIT = 3
SPECIALIST: tuple[PlacementPolicy, ...] = (
    *placement.POLICIES,
    PlacementPolicy(policy_id=SPECIAL, backend=PROVIDER, cleanup_providers=(PROVIDER,)),
)
"""The policies of a worker that can run what others cannot."""


@attrs.frozen(kw_only=True, eq=False)
class Roles:
    """What the processes of a world run."""

    stage: Stage
    site: Site
    starting: Starting
    provider: ProviderFactory
    sandbox_limit: int | None

    async def worker(
        self,
        life: Life,
        stop: Stop,
        *,
        policies: Sequence[PlacementPolicy],
        release_id: ReleaseId | None,
    ) -> None:
        """Serve the lane of a release as a worker that can run these policies."""
        worker = self._worker(life, policies, release_id)
        self.stage.serving[life.name] = lambda: worker.adopted
        await worker.serve(stop)

    def _worker(
        self, life: Life, policies: Sequence[PlacementPolicy], release_id: ReleaseId | None
    ) -> Worker:
        stage, clock = self.stage, life.clock
        link = Link(stage, life)
        ports = open_ports(stage.world, link)
        provider = self._provider(life, link)
        sandboxes = SandboxBackend(
            tokens=WitnessedTokens(stage.world, link, stage=stage, life=life),
            capacity=ports.capacity,
            attempts=ports.attempts,
            providers={PROVIDER: provider},
            clock=clock,
            limits=stage.limits,
            settings=SandboxSettings(
                default_provider=PROVIDER, runner_pyz=b"", provider_limit=self.sandbox_limit
            ),
        )
        backend = PlayBackend(sandboxes=sandboxes, clock=clock, stage=stage, life=life)
        return Worker(
            ports=self._worker_ports(life, link, ports, provider, backend),
            settings=WorkerSettings(
                name=life.name,
                lane=lane_of_release(release_id),
                release_id=release_id,
                backend=PROVIDER,
                policies=policies,
                slots=SLOTS,
                org_limit=ORG_LIMIT,
                limits=stage.limits,
                adoption=stage.mixture.adoption,
                drain_exit=lane_of_release(release_id) in stage.winding_down,
            ),
            chance=life.chance,
        )

    def _worker_ports(
        self,
        life: Life,
        link: Link,
        ports: MemoryPorts,
        provider: WatchedProvider,
        backend: PlayBackend,
    ) -> WorkerPorts:
        stage = self.stage
        return WorkerPorts(
            attempts=WitnessedAttempts(stage.world, link, stage=stage),
            terminals=WitnessedTerminals(stage.world, link, stage=stage),
            engine=ports.engine,
            outbox=ports.outbox,
            cleanup=ports.cleanup,
            sheets=ports.sheets,
            receipts=WitnessedReceipts(stage.world, link, stage=stage, life=life),
            signals=ports.signals,
            usage=ports.usage,
            backend=backend,
            telemetry=ToldTelemetry(stage, life),
            clock=life.clock,
            ledger=MemoryLedger(stage.world, link),
            recovery=ports.recovery,
            launches=ports.launches,
            admission=ports.admission,
            lanes=self._lanes(life, link),
            providers={PROVIDER: provider},
        )

    def _lanes(self, life: Life, link: Link) -> WitnessedLanes | None:
        """Workers of the one release there is need no registry, which makes worlds cheaper."""
        if self.stage.mixture.releases == 1:
            return None
        return WitnessedLanes(self.stage.world, link, stage=self.stage, life=life)

    def _provider(self, life: Life, link: Link) -> WatchedProvider:
        return WatchedProvider(
            inner=self.provider(self._seat(link)),
            stage=self.stage,
            site=self.site,
            life=life,
            land_later=self._land_later,
        )

    def _seat(self, faults: Faults) -> Seat:
        return Seat(
            clock=self.stage.store_clock,
            faults=faults,
            life_of=self.starting.life_of,
            shared=self.site.sandboxes,
        )

    def _land_later(self, operation: Operation, resources: Resources, after_s: float) -> None:
        """Let a create land when it is least expected; its sender need not live any more."""

        async def land() -> None:
            await self.stage.clock.nap(after_s)
            self.site.on_their_way -= 1
            if operation in self.site.homes.values():
                return  # another create of this name was first
            try:
                ref = await self.provider(self._seat(NO_FAULTS)).create(operation, resources)
            except PortError:
                return
            self.site.homes[ref.sandbox_id] = operation
            self.stage.note(
                "create landed late",
                ref.sandbox_id,
                actor=PROVIDER,
                run=operation.run_id,
                attempt=operation.attempt,
            )

        self.site.on_their_way += 1
        self.starting.nursery.start_soon(land)

    async def controller(self, life: Life, stop: Stop) -> None:
        """Deliver, delete, and end what no worker ends, on all lanes."""
        stage = self.stage
        link = Link(stage, life)
        ports = open_ports(stage.world, link)
        telemetry = ToldTelemetry(stage, life)
        dispatcher = Dispatcher(
            outbox=ports.outbox,
            ledger=MemoryLedger(stage.world, link),
            clock=life.clock,
            telemetry=telemetry,
            limits=stage.limits,
            owner=life.name,
        )
        projector = OutboxProjector(
            outbox=ports.outbox,
            dispatcher=dispatcher,
            telemetry=telemetry,
            limits=stage.limits,
        )
        provider = self._provider(life, link)
        seat = SweepSeat(
            stage=stage,
            life=life,
            link=link,
            ports=ports,
            provider=provider,
            telemetry=telemetry,
            dispatcher=dispatcher,
        )
        cleanup = CleanupController(
            cleanup=ports.cleanup,
            providers={PROVIDER: provider},
            clock=life.clock,
            telemetry=telemetry,
            limits=stage.limits,
            owner=life.name,
        )
        keep = partial(keep_running, telemetry=telemetry, chance=life.chance)
        async with trio.open_nursery() as duties:
            duties.start_soon(keep, "outbox projector", projector.run)
            duties.start_soon(keep, "cleanup", cleanup.run)
            async with trio.open_nursery() as stoppable:
                stoppable.start_soon(keep, "liveness sweep", partial(sweep_silent, seat, stop))
                stoppable.start_soon(self._recovery(life, link, ports, telemetry).serve, stop)
                await stop.wait()
                drain_s = stage.limits.drain.total_seconds()
                stoppable.cancel_scope.deadline = trio.current_time() + drain_s
            duties.cancel_scope.cancel(reason="stopping")

    def _recovery(
        self, life: Life, link: Link, ports: MemoryPorts, telemetry: ToldTelemetry
    ) -> Controllers:
        stage = self.stage
        return Controllers(
            ports=ControllerPorts(
                recovery=ports.recovery,
                attempts=ports.attempts,
                terminals=WitnessedTerminals(stage.world, link, stage=stage),
                launches=ports.launches,
                admission=ports.admission,
                sheets=ports.sheets,
                receipts=WitnessedReceipts(stage.world, link, stage=stage, life=life),
                usage=ports.usage,
                outbox=ports.outbox,
                telemetry=telemetry,
                clock=life.clock,
                ledger=MemoryLedger(stage.world, link),
            ),
            settings=ControllerSettings(name=life.name, limits=stage.limits),
            chance=life.chance,
        )
