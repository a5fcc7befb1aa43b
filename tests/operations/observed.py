"""A deployment on memory ports and virtual time that is scraped as a real one is."""

import io
from collections.abc import Callable

import attrs

from deepline.adapters.memory.clock import TrioTimeClock
from deepline.adapters.telemetry import (
    LogLines,
    Metrics,
    ProcessTelemetry,
    Redactor,
    SchedulerLabels,
    SchedulerSeries,
    SchedulerSnapshot,
)
from deepline.adapters.telemetry.census_series import CensusSeries
from deepline.adapters.telemetry.controller_series import ControllerSeries, ControllerSnapshot
from deepline.adapters.telemetry.loop_series import LoopSeries
from deepline.cli.roles.worker import worker_health
from deepline.core.model.launch import Launch
from deepline.core.queues import lane_of_launch
from deepline.ports.errors import Unavailable
from deepline.runtime.census_taking import CensusTaking
from deepline.runtime.worker import Worker
from tests.runtime.sandbox_worlds import SandboxWorld
from tests.runtime.worlds import launch_of, submission_of
from tests.support.scrapes import Scrape


class Away:
    """Operations by their beginnings that nobody answers, until they are taken out again."""

    def __init__(self, *operations: str) -> None:
        self.operations = set(operations)

    async def before(self, operation: str) -> None:
        """Refuse what is away."""
        if any(operation.startswith(one) for one in self.operations):
            raise Unavailable(f"{operation} is away")

    async def after(self, operation: str) -> None:
        """Answers come through."""

    def delivers(self, hint: str) -> bool:
        """So do hints."""
        return True


LABELS = SchedulerLabels(schema="deepline", worker_queue="runs", worker_name="w1")


@attrs.define(eq=False)
class ObservedWorld(SandboxWorld):
    """The telemetry of a real process over a world of memory, with one count of the store."""

    metrics: Metrics = attrs.field(init=False)
    census: CensusTaking = attrs.field(init=False)
    worker_seen: Worker | None = None
    controller: Callable[[], ControllerSnapshot] | None = None
    log: io.StringIO = attrs.field(factory=io.StringIO)

    def __attrs_post_init__(self) -> None:
        """Open the ports, and register what a worker and a controller expose."""
        super().__attrs_post_init__()
        clock = TrioTimeClock()
        self.metrics = Metrics(LABELS.as_labels())
        lines = LogLines(self.log, clock=clock, redactor=Redactor())
        self.telemetry = ProcessTelemetry(lines, self.metrics, clock)  # type: ignore[assignment]
        self.census = CensusTaking(
            census=self.ports.census,
            telemetry=self.telemetry,
            clock=self.clock,
            limits=self.limits,
        )
        registry = self.metrics.registry
        registry.register(SchedulerSeries(LABELS, self._snapshot))
        registry.register(LoopSeries(self._ages))
        registry.register(ControllerSeries(self._controller))
        registry.register(CensusSeries(lambda: self.census.figures, lambda: self.census.counted_at))

    def scrape(self) -> Scrape:
        """What the process exposes now."""
        return Scrape.of(self.metrics.render(), self.clock.now().timestamp())

    async def submit_stamped(self, *run_ids: str) -> None:
        """Submit runs as the gateway does, which stamps when it took them."""
        for run_id in run_ids:
            launch: Launch = attrs.evolve(launch_of(run_id), submitted_at=self.clock.now())
            choice = lane_of_launch(launch)
            await self.ports.admission.ensure_lane(choice.lane, choice.release_id)
            await self.ports.admission.submit([submission_of(launch, self.limits)])

    def _snapshot(self) -> SchedulerSnapshot:
        worker = self.worker_seen
        if worker is None:
            return SchedulerSnapshot()
        return SchedulerSnapshot(
            running=worker.running, oldest_running_s=worker.keeper.oldest_held_s
        )

    def _controller(self) -> ControllerSnapshot:
        """What a controller says whose sweep has just succeeded, unless told otherwise."""
        if self.controller is not None:
            return self.controller()
        return ControllerSnapshot(
            duties={"sweep": True, "census": True},
            sweep_succeeded_at_s=self.clock.now().timestamp(),
            blind={"local": False},
        )

    def _ages(self) -> dict[str, float | None]:
        return {} if self.worker_seen is None else dict(worker_health(self.worker_seen).ages_s)
