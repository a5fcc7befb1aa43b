"""What a process says of itself: its telemetry, and the snapshot that metrics are rendered from."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

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
from deepline.cli.settings.parts import ProcessSettings


def _nothing() -> SchedulerSnapshot:
    return SchedulerSnapshot()


@attrs.define(eq=False)
class Observed:
    """One process's telemetry. `snapshot` is filled in by the role once it has what to say."""

    telemetry: ProcessTelemetry
    metrics: Metrics
    clock: SystemClock
    snapshot: Callable[[], SchedulerSnapshot] = _nothing

    def now(self) -> SchedulerSnapshot:
        """The snapshot at this moment."""
        return self.snapshot()


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
        yield seen
    finally:
        undo()


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
