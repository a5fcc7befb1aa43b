"""How long ago each loop of a process gave a sign of life, as a series (F34, FAULTS F77)."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

LOOP_AGE = "deepline_loop_age_seconds"


class LoopSeries(Collector):
    """Renders what `ages_s` answers, which must not wait; a loop that never turned has no age."""

    def __init__(self, ages_s: Callable[[], Mapping[str, float | None]]) -> None:
        self._ages_s = ages_s

    def collect(self) -> Iterator[Metric]:
        """What the registry asks for."""
        family = GaugeMetricFamily(
            LOOP_AGE, "How long ago a loop of this process last turned.", labels=["loop"]
        )
        for loop, age_s in self._ages_s().items():
            if age_s is not None:
                family.add_metric([loop], age_s)
        yield family
