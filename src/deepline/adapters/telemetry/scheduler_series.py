"""The scheduler's own series, from a snapshot that callers collected while working (C58).

There is no global queue state without a scan, and rendering never scans: the availability gauge
is always 0, and the depth says what this process alone knows.
"""

from collections.abc import Callable, Iterator, Sequence

import attrs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

PREFIX = "deepline_absurd_runtime_"


@attrs.frozen(kw_only=True)
class SchedulerLabels:
    """The base labels of every scheduler series; an absent name is `unnamed`."""

    schema: str
    worker_release_id: str | None = None
    worker_queue: str | None = None
    worker_name: str | None = None

    def as_labels(self) -> dict[str, str]:
        """Label names and values in their fixed order."""
        return {
            "schema": self.schema,
            "worker_release_id": self.worker_release_id or "",
            "worker_queue": self.worker_queue or "",
            "worker_name": self.worker_name or "unnamed",
        }


@attrs.frozen(kw_only=True)
class SchedulerSnapshot:
    """What one process knows of its work at one moment; ages in seconds."""

    queued: int = 0
    running: int = 0
    oldest_queued_s: float = 0.0
    oldest_running_s: float = 0.0
    stale_leases: int = 0
    completed_runner_handoffs: int = 0
    running_without_lease: int = 0
    stale_heartbeats: int = 0
    play_run_dead_letters: int = 0
    pool_clients: int = 0
    pool_idle_clients: int = 0
    pool_waiters: int = 0
    capacity_rejections: int = 0
    saturation_rejections: int = 0
    breaker_rejections: int = 0


@attrs.frozen
class _Gauge:
    name: str
    text: str
    read: Callable[[SchedulerSnapshot], float]


GAUGES: Sequence[_Gauge] = (
    _Gauge("worker_info", "Always 1; its labels say who this is.", lambda _: 1),
    _Gauge(
        "queue_metrics_available",
        "Always 0: rendering does not scan the queue.",
        lambda _: 0,
    ),
    _Gauge("queue_depth", "Queued runs that this process knows of.", lambda s: s.queued),
    _Gauge("running", "Runs in hand.", lambda s: s.running),
    _Gauge("oldest_queued_seconds", "Age of the oldest queued run.", lambda s: s.oldest_queued_s),
    _Gauge(
        "oldest_running_seconds", "Age of the oldest run in hand.", lambda s: s.oldest_running_s
    ),
    _Gauge("stale_leases", "Leases past their end.", lambda s: s.stale_leases),
    _Gauge(
        "completed_runner_handoffs",
        "Runner terminals recorded and not yet settled.",
        lambda s: s.completed_runner_handoffs,
    ),
    _Gauge(
        "running_without_lease",
        "Running attempts without a lease.",
        lambda s: s.running_without_lease,
    ),
    _Gauge("stale_heartbeats", "Attempts whose heart is silent.", lambda s: s.stale_heartbeats),
    _Gauge(
        "play_run_dead_letters",
        "Runs given up on their last attempt.",
        lambda s: s.play_run_dead_letters,
    ),
    _Gauge("scheduler_pool_clients", "Database connections.", lambda s: s.pool_clients),
    _Gauge("scheduler_pool_idle_clients", "Idle connections.", lambda s: s.pool_idle_clients),
    _Gauge("scheduler_pool_waiters", "Waiters for a connection.", lambda s: s.pool_waiters),
)

COUNTERS: Sequence[_Gauge] = (
    _Gauge(
        "scheduler_capacity_rejections_total",
        "Times the database had no room.",
        lambda s: s.capacity_rejections,
    ),
    _Gauge(
        "scheduler_saturation_rejections_total",
        "Times nobody could wait for a connection any more.",
        lambda s: s.saturation_rejections,
    ),
    _Gauge(
        "scheduler_breaker_rejections_total",
        "Times the open breaker refused a connection.",
        lambda s: s.breaker_rejections,
    ),
)


class SchedulerSeries(Collector):
    """Renders the newest snapshot that `snapshot` answers, which must not wait."""

    def __init__(self, labels: SchedulerLabels, snapshot: Callable[[], SchedulerSnapshot]) -> None:
        self._labels = labels.as_labels()
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """What the registry asks for."""
        now = self._snapshot()
        names, values = list(self._labels), list(self._labels.values())
        for one in GAUGES:
            gauge = GaugeMetricFamily(PREFIX + one.name, one.text, labels=names)
            gauge.add_metric(values, one.read(now))
            yield gauge
        for one in COUNTERS:
            counter = CounterMetricFamily(PREFIX + one.name, one.text, labels=names)
            counter.add_metric(values, one.read(now))
            yield counter
