"""What a process says of itself: its telemetry, and the snapshot that metrics are rendered from."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta

import attrs

from deepline.adapters.postgres.pool import PoolCounts
from deepline.adapters.system_clock import SystemClock
from deepline.adapters.telemetry import (
    LogLines,
    Metrics,
    ProcessResources,
    ProcessTelemetry,
    Redactor,
    SchedulerLabels,
    SchedulerSeries,
    SchedulerSnapshot,
    forward_standard_logs,
)
from deepline.adapters.telemetry.loop_series import LoopSeries
from deepline.adapters.telemetry.tracing import TracingUnavailable, opened_tracing
from deepline.cli.failures import CommandFailed
from deepline.cli.settings.parts import ProcessSettings
from deepline.ports.census import Figures
from deepline.ports.tracing import NO_TRACING, Tracing

SERVICE = "deepline"


def _nothing() -> SchedulerSnapshot:
    return SchedulerSnapshot()


def _uncounted() -> Figures | None:
    return None


@attrs.define(eq=False)
class Observed:
    """One process's telemetry. `snapshot` is filled in by the role once it has what to say.

    So is `figures`, by a controller that counts the whole store.
    """

    telemetry: ProcessTelemetry
    metrics: Metrics
    clock: SystemClock
    tracing: Tracing = NO_TRACING
    snapshot: Callable[[], SchedulerSnapshot] = _nothing
    figures: Callable[[], Figures | None] = _uncounted

    def now(self) -> SchedulerSnapshot:
        """The snapshot at this moment, with the store's figures where this process counts."""
        figures = self.figures()
        own = self.snapshot()
        return own if figures is None else _with_figures(own, figures)

    def show_loops(self, ages_s: Callable[[], Mapping[str, float | None]]) -> None:
        """Show among the metrics how long ago each loop of the role turned."""
        self.metrics.registry.register(LoopSeries(ages_s))


@contextmanager
def observed_process(
    settings: ProcessSettings, labels: SchedulerLabels, secrets: Iterable[str]
) -> Iterator[Observed]:
    """Telemetry for the length of a block; `secrets` are masked wherever they turn up."""
    clock = SystemClock()
    metrics = Metrics(labels.as_labels())
    lines = LogLines(
        sys.stderr,
        clock=clock,
        redactor=Redactor(secrets),
        shape=settings.log_format,
        least=settings.log_level,
    )
    seen = Observed(telemetry=ProcessTelemetry(lines, metrics, clock), metrics=metrics, clock=clock)
    metrics.registry.register(SchedulerSeries(labels, seen.now))
    metrics.registry.register(ProcessResources(machine=labels.worker_name))
    undo = forward_standard_logs(lines)
    try:
        with _traced(settings) as seen.tracing:
            yield seen
    finally:
        undo()


@contextmanager
def _traced(settings: ProcessSettings) -> Iterator[Tracing]:
    """Tracing if it was asked for. Raises `CommandFailed` when it cannot be had."""
    with ExitStack() as stack:
        try:
            opened = opened_tracing(settings.traces_exporter, service=SERVICE)
            tracing = stack.enter_context(opened)
        except TracingUnavailable as error:
            raise CommandFailed(str(error)) from error
        yield tracing


def snapshot_of(
    pool: PoolCounts, *, running: int = 0, oldest_running_s: float = 0.0
) -> SchedulerSnapshot:
    """What a process knows while it works, without asking anybody."""
    return SchedulerSnapshot(
        running=running,
        oldest_running_s=oldest_running_s,
        pool_clients=pool.total,
        pool_idle_clients=pool.idle,
        pool_waiters=pool.waiting,
        capacity_rejections=pool.capacity_rejections,
        saturation_rejections=pool.saturation_rejections,
        breaker_rejections=pool.breaker_rejections,
    )


def _with_figures(own: SchedulerSnapshot, figures: Figures) -> SchedulerSnapshot:
    lanes = figures.lanes
    oldest = max((lane.queued.oldest for lane in lanes), default=timedelta(0))
    return attrs.evolve(
        own,
        queued=sum(lane.queued.count for lane in lanes),
        oldest_queued_s=oldest.total_seconds(),
        stale_leases=sum(lane.stale_leases for lane in lanes),
        completed_runner_handoffs=figures.unsettled.count,
        running_without_lease=sum(lane.running_without_lease for lane in lanes),
        stale_heartbeats=figures.silent,
        play_run_dead_letters=sum(lane.given_up for lane in lanes),
    )
