"""Counts and observations of one process, rendered from memory only (C58, I47).

The registry is our own, so that nothing a library registers globally shows up, and every family
is bounded: a label that turns out to have no end costs a dropped sample, not the process.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Self

import attrs
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from deepline.adapters.telemetry.families import (
    KNOWN,
    SECONDS,
    Family,
    counter_name,
    histogram_name,
)

FAMILIES_MAX = 300
SERIES_MAX = 2_000
_OTHER = "Counted by name."
_DROPPED = Family(
    name="deepline_telemetry_dropped_total",
    text="Samples dropped because a metric had too many series or other labels than before.",
    expected=((),),
)


@attrs.define
class _Histogram:
    buckets: Sequence[float]
    counts: list[int]
    total: float = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.buckets, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        bounds = [*(str(bound) for bound in self.buckets), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self.counts)), strict=True))


@attrs.define
class _Series:
    family: Family
    counters: dict[tuple[str, ...], float] = attrs.field(factory=dict)
    histograms: dict[tuple[str, ...], _Histogram] = attrs.field(factory=dict)

    @classmethod
    def of(cls, family: Family) -> Self:
        """A family whose expected counters are there."""
        return cls(family, dict.fromkeys(family.expected, 0.0))

    def place(self, labels: Mapping[str, str]) -> tuple[str, ...] | None:
        """Where a sample with these labels goes; `None` when there is no place for it."""
        if labels.keys() - set(self.family.labels):
            return None
        key = tuple(labels.get(name, "") for name in self.family.labels)
        known = key in self.counters or key in self.histograms
        full = len(self.counters) + len(self.histograms) >= SERIES_MAX
        return key if known or not full else None


class Metrics(Collector):
    """Everything this process has counted. `base` are the labels of every scheduler series."""

    def __init__(self, base: Mapping[str, str] | None = None) -> None:
        self._base = dict(base or {})
        self._families = {family.name: _Series.of(family) for family in (*KNOWN, _DROPPED)}
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def count(self, name: str, amount: float, labels: Mapping[str, str]) -> None:
        """Add to a counter."""
        series = self._series(counter_name(name), labels, buckets=None)
        key = None if series is None else series.place(labels)
        if series is None or key is None:
            self._drop()
            return
        series.counters[key] = series.counters.get(key, 0.0) + amount

    def observe(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Add one observation to a histogram."""
        series = self._series(histogram_name(name), labels, buckets=SECONDS)
        key = None if series is None else series.place(labels)
        if series is None or key is None or series.family.buckets is None:
            self._drop()
            return
        buckets = series.family.buckets
        held = series.histograms.get(key)
        if held is None:
            held = series.histograms[key] = _Histogram(buckets, [0] * (len(buckets) + 1))
        held.add(value)

    def render(self) -> bytes:
        """The text exposition of everything registered; does no I/O."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """What the registry asks for."""
        for series in self._families.values():
            yield self._metric(series)

    def _series(
        self, name: str, labels: Iterable[str], *, buckets: Sequence[float] | None
    ) -> _Series | None:
        series = self._families.get(name)
        if series is None and len(self._families) < FAMILIES_MAX:
            family = Family(name=name, text=_OTHER, labels=tuple(sorted(labels)), buckets=buckets)
            series = self._families[name] = _Series(family)
        return series

    def _drop(self) -> None:
        counters = self._families[_DROPPED.name].counters
        counters[()] = counters.get((), 0.0) + 1

    def _metric(self, series: _Series) -> Metric:
        family = series.family
        base = self._base if family.scheduler else {}
        names, values = [*base, *family.labels], list(base.values())
        if family.buckets is not None:
            histogram = HistogramMetricFamily(family.name, family.text, labels=names)
            for key, held in series.histograms.items():
                histogram.add_metric([*values, *key], held.cumulative(), held.total)
            return histogram
        counter = CounterMetricFamily(family.name, family.text, labels=names)
        for key, total in series.counters.items():
            counter.add_metric([*values, *key], total)
        return counter
