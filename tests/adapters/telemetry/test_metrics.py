"""The exposition: exact names, base labels, bounds (C58)."""

import re

import attrs

from deepline.adapters.telemetry import (
    Metrics,
    ProcessResources,
    SchedulerLabels,
    SchedulerSeries,
    SchedulerSnapshot,
)
from deepline.adapters.telemetry.families import LAUNCH_READ_DURATION, LAUNCH_READS
from deepline.adapters.telemetry.metrics import SERIES_MAX

GAUGES = {
    "worker_info": 1,
    "queue_metrics_available": 0,
    "queue_depth": 11,
    "running": 12,
    "oldest_queued_seconds": 13.5,
    "oldest_running_seconds": 14.5,
    "stale_leases": 15,
    "completed_runner_handoffs": 16,
    "running_without_lease": 17,
    "stale_heartbeats": 18,
    "play_run_dead_letters": 19,
    "scheduler_pool_clients": 20,
    "scheduler_pool_idle_clients": 21,
    "scheduler_pool_waiters": 22,
}
COUNTERS = {
    "scheduler_capacity_rejections_total": 23,
    "scheduler_saturation_rejections_total": 24,
    "scheduler_breaker_rejections_total": 25,
}
SNAPSHOT = SchedulerSnapshot(
    queued=11,
    running=12,
    oldest_queued_s=13.5,
    oldest_running_s=14.5,
    stale_leases=15,
    completed_runner_handoffs=16,
    running_without_lease=17,
    stale_heartbeats=18,
    play_run_dead_letters=19,
    pool_clients=20,
    pool_idle_clients=21,
    pool_waiters=22,
    capacity_rejections=23,
    saturation_rejections=24,
    breaker_rejections=25,
)


def exposed(labels: SchedulerLabels, snapshot: SchedulerSnapshot = SNAPSHOT) -> str:
    """The text of a process with these labels."""
    metrics = Metrics(labels.as_labels())
    metrics.registry.register(SchedulerSeries(labels, lambda: snapshot))
    return metrics.render().decode()


def test_every_scheduler_series_has_its_exact_name_type_and_value() -> None:
    """Names are interface; each has HELP and TYPE, and the text ends with a line break."""
    text = exposed(SchedulerLabels(schema="s", worker_queue="runs", worker_name="w"))

    for kind, table in (("gauge", GAUGES), ("counter", COUNTERS)):
        for name, value in table.items():
            full = f"deepline_absurd_runtime_{name}"
            assert f"# TYPE {full} {kind}\n" in text
            assert f"# HELP {full} " in text
            [sample] = re.findall(rf"^{full}\{{[^}}]*\}} (.*)$", text, re.MULTILINE)
            assert float(sample) == value, name
    assert text.endswith("\n")


def test_scheduler_series_carry_the_base_labels() -> None:
    """An unnamed worker is `unnamed`; quotes, backslashes and line breaks are escaped."""
    hostile = exposed(SchedulerLabels(schema='a"b', worker_release_id="c\\d", worker_queue="e\nf"))

    assert r'schema="a\"b"' in hostile
    assert r'worker_release_id="c\\d"' in hostile
    assert r'worker_queue="e\nf"' in hostile
    assert 'worker_name="unnamed"' in hostile


def test_the_launch_families_are_announced_before_the_first_read() -> None:
    """A dashboard sees that the metric exists, though nothing was read yet."""
    text = Metrics().render().decode()

    for name in (LAUNCH_READS, LAUNCH_READ_DURATION):
        assert f"# TYPE {name} counter" in text
        assert f"{name}{{" not in text


def test_launch_reads_are_grouped_by_family_with_their_own_labels() -> None:
    """Reads are told apart by caller, release and outcome, beside the base labels."""
    metrics = Metrics({"schema": "s"})

    for outcome in ("found", "missing", "error"):
        labels = {"caller": "c", "launch_release_id": "r"}
        metrics.count(LAUNCH_READS, 1, {**labels, "outcome": outcome})
        metrics.count(LAUNCH_READ_DURATION, 2.5, labels)

    text = metrics.render().decode()
    series = [line.split("{")[0] for line in text.splitlines() if "launch_read" in line]
    samples = [name for name in series if not name.startswith("#")]
    assert samples == [LAUNCH_READS] * 3 + [LAUNCH_READ_DURATION]
    assert 'caller="c",launch_release_id="r",outcome="found",schema="s"} 1.0' in text
    assert 'launch_release_id="r",schema="s"} 7.5' in text


def test_names_are_completed() -> None:
    """Code counts `deferrals`; the exposition says `deepline_deferrals_total`."""
    metrics = Metrics()

    metrics.count("deferrals", 1, {"reason": "capacity"})
    metrics.count("something_else", 2, {})
    metrics.observe("lease_extension_s", 0.02, {})

    text = metrics.render().decode()
    assert 'deepline_deferrals_total{reason="capacity"} 1.0' in text
    assert "deepline_something_else_total 2.0" in text
    assert 'deepline_lease_extension_seconds_bucket{le="0.025"} 1.0' in text
    assert 'deepline_lease_extension_seconds_bucket{le="0.01"} 0.0' in text
    assert "deepline_lease_extension_seconds_count 1.0" in text


def test_a_label_without_end_costs_samples_and_not_memory() -> None:
    """Past the bound new series are dropped, known ones go on, and the drops are counted."""
    metrics = Metrics()
    for number in range(SERIES_MAX + 10):
        metrics.count("deferrals", 1, {"reason": str(number)})
    metrics.count("deferrals", 1, {"reason": "0"})

    text = metrics.render().decode()
    assert text.count("deepline_deferrals_total{") == SERIES_MAX
    assert 'deepline_deferrals_total{reason="0"} 2.0' in text
    assert "deepline_telemetry_dropped_total 10.0" in text


def test_labels_that_a_metric_has_not_are_dropped() -> None:
    """One name never means two things: other labels or another kind are no sample of it."""
    metrics = Metrics()

    metrics.count("deferrals", 1, {"colour": "red"})
    metrics.observe("deferrals_total", 1, {"reason": "x"})

    text = metrics.render().decode()
    assert "deepline_telemetry_dropped_total 2.0" in text
    assert "deepline_deferrals_total{" not in text


def test_rendering_reads_the_snapshot_of_the_moment() -> None:
    """Two renderings differ by what happened between them, and nothing else is asked."""
    now = [attrs.evolve(SNAPSHOT, running=1)]
    labels = SchedulerLabels(schema="s")
    metrics = Metrics(labels.as_labels())
    metrics.registry.register(SchedulerSeries(labels, lambda: now[0]))

    before = metrics.render().decode()
    now[0] = attrs.evolve(SNAPSHOT, running=2)
    after = metrics.render().decode()

    assert re.search(r"_running\{.*\} 1\.0", before)
    assert re.search(r"_running\{.*\} 2\.0", after)


def test_process_resources_name_the_service_and_the_machine() -> None:
    """Without a worker's name the machine is `local`."""
    metrics = Metrics()
    metrics.registry.register(ProcessResources())

    text = metrics.render().decode()

    [memory] = re.findall(
        r"^deepline_process_resident_memory_bytes\{(.*)\} (.*)$", text, re.MULTILINE
    )
    assert memory[0] == 'machine="local",service="scheduler"'
    assert float(memory[1]) > 1_000_000
    assert "deepline_process_cpu_seconds_total{" in text
    assert "deepline_process_open_fds{" in text
