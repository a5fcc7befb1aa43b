"""The controller's duties toward runs that no worker ends: one process, any number of them (C02 b).

Recovery, ceilings and stranded runs, across every lane. Nothing is leased between controllers: each
end is fenced, so whichever comes first does it and the others find it done (I01).
"""

import enum
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

import attrs
import trio

from deepline.core import placement
from deepline.core.limits import Limits
from deepline.core.model.identity import Lane
from deepline.core.model.placement import PlacementPolicy
from deepline.ports.admission import Admission
from deepline.ports.attempts import Attempts
from deepline.ports.clock import Clock
from deepline.ports.errors import PortError
from deepline.ports.launches import Launches
from deepline.ports.ledger import Ledger
from deepline.ports.outbox import Outbox
from deepline.ports.receipts import Receipts
from deepline.ports.recovery import Recovery
from deepline.ports.sheets import Sheets
from deepline.ports.telemetry import Telemetry
from deepline.ports.terminals import Terminals
from deepline.ports.usage import Usage
from deepline.runtime.cleanup_controller import CleanupController
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.outside_settlement import OutsideSettlement
from deepline.runtime.overdue_controller import OverdueController
from deepline.runtime.progress import Progress
from deepline.runtime.recovery_controller import RecoveryController
from deepline.runtime.stop import Stop
from deepline.runtime.stranded_controller import StrandedController
from deepline.runtime.supervision import CHANNEL, keep_running, text_of


class Duty(enum.StrEnum):
    """What a controller looks after."""

    RECOVERY = "recovery"
    OVERDUE = "overdue"
    STRANDED = "stranded"


@attrs.frozen(kw_only=True)
class ControllerPorts:
    """What the duties need. `ledger` is `None` where only the projector delivers facts (C35.10)."""

    recovery: Recovery
    attempts: Attempts
    terminals: Terminals
    launches: Launches
    admission: Admission
    sheets: Sheets
    receipts: Receipts
    usage: Usage
    outbox: Outbox
    telemetry: Telemetry
    clock: Clock
    ledger: Ledger | None = None


@attrs.frozen(kw_only=True)
class ControllerSettings:
    """`name` must be unique per process start. `duties` are those this process takes.

    With `lane` unsettled terminals are settled on that lane alone; the other duties know no lane.
    """

    name: str
    lane: Lane | None = None
    limits: Limits = attrs.field(factory=Limits)
    policies: Sequence[PlacementPolicy] = placement.POLICIES
    production: bool = False
    duties: Sequence[Duty] = tuple(Duty)


@attrs.frozen(kw_only=True, eq=False)
class _Context:
    """The controller's side of ending a run."""

    ports: ControllerPorts
    limits: Limits
    policies: Sequence[PlacementPolicy]
    production: bool
    dispatcher: Dispatcher | None
    cleanup: CleanupController | None


@attrs.define(eq=False)
class Controllers:
    """The duties over given ports: `await Controllers(ports, settings, chance).serve(stop)`.

    `dispatcher` and `cleanup` are those of a process that has them running already; without a
    dispatcher, but with a ledger, `serve` runs one of its own.
    """

    ports: ControllerPorts
    settings: ControllerSettings
    chance: random.Random
    dispatcher: Dispatcher | None = None
    cleanup: CleanupController | None = None
    _own_dispatcher: Dispatcher | None = attrs.field(init=False, default=None)
    _settlement: OutsideSettlement = attrs.field(init=False)
    _recovery: RecoveryController = attrs.field(init=False)
    _overdue: OverdueController = attrs.field(init=False)
    _stranded: StrandedController = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Wire the parts."""
        ports, settings = self.ports, self.settings
        if self.dispatcher is None and ports.ledger is not None:
            self._own_dispatcher = self.dispatcher = Dispatcher(
                outbox=ports.outbox,
                ledger=ports.ledger,
                clock=ports.clock,
                telemetry=ports.telemetry,
                limits=settings.limits,
                owner=f"{settings.name}:recovery",
            )
        context = _Context(
            ports=ports,
            limits=settings.limits,
            policies=settings.policies,
            production=settings.production,
            dispatcher=self.dispatcher,
            cleanup=self.cleanup,
        )
        self._settlement = OutsideSettlement(context)
        self._recovery = self._recovery_of(settings.lane)
        self._overdue = self._overdue_of()
        self._stranded = self._stranded_of()

    async def serve(
        self, stop: Stop, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until `stop` is requested; a settlement in hand ends within the drain limit."""
        async with trio.open_nursery() as services:
            if self._own_dispatcher is not None:
                services.start_soon(self._kept, "dispatcher", self._own_dispatcher.run)
            async with trio.open_nursery() as duties:
                duties.start_soon(self.run_duties, stop)
                task_status.started()
                await stop.wait()
                drain_s = self.settings.limits.drain.total_seconds()
                duties.cancel_scope.deadline = trio.current_time() + drain_s
            services.cancel_scope.cancel(reason="stopping")

    async def recover_first(self) -> None:
        """Settle what was left before anything is claimed, bounded, best effort (C03.1)."""
        with trio.move_on_after(self.settings.limits.drain.total_seconds()):
            try:
                await self._recovery.run_pass(older_than=timedelta(0))
            except PortError as error:
                self.ports.telemetry.warn(
                    CHANNEL, "completed_runner_recovery_failed", error=text_of(error)
                )

    async def run_duties(self, stop: Stop) -> None:
        """Keep the duties running until stopped; a pass in hand is never interrupted by that."""
        async with trio.open_nursery() as duties:
            for name, run in self._duties():
                duties.start_soon(self._kept, name, partial(run, stop))

    def _duties(self) -> list[tuple[str, Callable[[Stop], Awaitable[None]]]]:
        runs = {
            Duty.RECOVERY: self._recovery.run,
            Duty.OVERDUE: self._overdue.run,
            Duty.STRANDED: self._stranded.run,
        }
        return [(duty.value, runs[duty]) for duty in self.settings.duties]

    def progress(self) -> Mapping[Duty, tuple[Progress, timedelta]]:
        """How each duty that this process takes gets on, and the pause between its passes."""
        limits = self.settings.limits
        known = {
            Duty.RECOVERY: (self._recovery.progress, limits.overdue_interval),
            Duty.OVERDUE: (self._overdue.progress, limits.overdue_interval),
            Duty.STRANDED: (self._stranded.progress, limits.stranded_interval),
        }
        return {duty: known[duty] for duty in self.settings.duties}

    def _recovery_of(self, lane: Lane | None) -> RecoveryController:
        return RecoveryController(
            recovery=self.ports.recovery,
            attempts=self.ports.attempts,
            launches=self.ports.launches,
            settlement=self._settlement,
            telemetry=self.ports.telemetry,
            limits=self.settings.limits,
            lane=lane,
        )

    def _overdue_of(self) -> OverdueController:
        return OverdueController(
            recovery=self.ports.recovery,
            attempts=self.ports.attempts,
            launches=self.ports.launches,
            settlement=self._settlement,
            telemetry=self.ports.telemetry,
            clock=self.ports.clock,
            limits=self.settings.limits,
            owner=self.settings.name,
        )

    def _stranded_of(self) -> StrandedController:
        return StrandedController(
            recovery=self.ports.recovery,
            attempts=self.ports.attempts,
            launches=self.ports.launches,
            admission=self.ports.admission,
            terminals=self.ports.terminals,
            settlement=self._settlement,
            telemetry=self.ports.telemetry,
            limits=self.settings.limits,
            dispatcher=self.dispatcher,
        )

    async def _kept(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        await keep_running(name, run, telemetry=self.ports.telemetry, chance=self.chance)
