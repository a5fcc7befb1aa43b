"""What this process uses of its machine (C58)."""

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_LABELS = ("service", "machine")
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


class ProcessResources(Collector):
    """Memory, processor time and open files; `machine` is the worker's name or `local`."""

    def __init__(self, *, service: str = "scheduler", machine: str | None = None) -> None:
        self._values = (service, machine or "local")

    def collect(self) -> Iterator[Metric]:
        """What the registry asks for."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = CounterMetricFamily(
            "deepline_process_cpu_seconds_total", "Processor time used.", labels=_LABELS
        )
        cpu.add_metric(self._values, used.ru_utime + used.ru_stime)
        yield cpu
        resident = _resident_bytes()
        yield self._gauge(
            "deepline_process_resident_memory_bytes",
            "Memory held now.",
            used.ru_maxrss * _MAXRSS_UNIT if resident is None else resident,
        )
        yield self._gauge(
            "deepline_process_resident_memory_max_bytes",
            "The most memory held so far.",
            used.ru_maxrss * _MAXRSS_UNIT,
        )
        files = _open_files()
        if files is not None:
            yield self._gauge("deepline_process_open_fds", "Open file descriptors.", files)

    def _gauge(self, name: str, text: str, value: float) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(name, text, labels=_LABELS)
        gauge.add_metric(self._values, value)
        return gauge


def _resident_bytes() -> int | None:
    """From /proc where there is one."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _open_files() -> int | None:
    try:
        return sum(1 for _ in Path("/dev/fd").iterdir())
    except OSError:
        return None
