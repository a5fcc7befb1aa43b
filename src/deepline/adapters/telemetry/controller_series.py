"""A controller's own series, from a snapshot that it keeps while it works (C58, FAULTS K)."""

from collections.abc import Callable, Iterator, Mapping

import attrs
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

LAST_SUCCESS = "deepline_sweep_last_success_timestamp_seconds"
BLIND = "deepline_sweep_blind_provider"
HELD = "deepline_duty_held"
STRANDED = "deepline_lane_stranded_runs"
STUCK = "deepline_duty_stuck"
NAMES = (LAST_SUCCESS, BLIND, HELD, STRANDED, STUCK)
RELEASES_MAX = 50
"""Releases that have a series of their own; of more, those with the most stranded runs."""


@attrs.frozen(kw_only=True)
class ControllerSnapshot:
    """What one controller knows at one moment.

    `sweep_succeeded_at_s` is Unix time, `None` before the first pass that ended by itself.
    `blind` says of each provider whether the last such pass got no answer from it. `stranded` says
    of each release how many of its runs nobody serves, `stuck` of each duty whether it does not
    turn any more.
    """

    duties: Mapping[str, bool]
    sweep_succeeded_at_s: float | None = None
    blind: Mapping[str, bool] = attrs.field(factory=dict[str, bool])
    stuck: Mapping[str, bool] = attrs.field(factory=dict[str, bool])
    stranded: Mapping[str, int] = attrs.field(factory=dict[str, int])


class ControllerSeries(Collector):
    """Renders what `snapshot` answers, which must not wait."""

    def __init__(self, snapshot: Callable[[], ControllerSnapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """What the registry asks for."""
        now = self._snapshot()
        last = GaugeMetricFamily(
            LAST_SUCCESS, "When this process last ended a pass of the sweep; 0 for never."
        )
        last.add_metric([], now.sweep_succeeded_at_s or 0.0)
        yield last
        yield _flags(
            BLIND, "1 for a provider that answered nothing of the last pass.", "provider", now.blind
        )
        yield _flags(HELD, "1 for a duty that this process does.", "duty", now.duties)
        yield _flags(
            STUCK, "1 for a duty that this process holds and gets no further.", "duty", now.stuck
        )
        yield _stranded(now.stranded)


def _stranded(stranded: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(
        STRANDED, "Open runs of releases that nobody serves.", labels=["release"]
    )
    for release, runs in sorted(stranded.items(), key=lambda one: (-one[1], one[0]))[:RELEASES_MAX]:
        family.add_metric([release], runs)
    return family


def _flags(name: str, text: str, label: str, flags: Mapping[str, bool]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, is_set in flags.items():
        family.add_metric([value], float(is_set))
    return family
