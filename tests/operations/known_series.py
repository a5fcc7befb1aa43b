"""Every series that a process shows, and whether an expression asks for others."""

from prometheus_client import CollectorRegistry

from deepline.adapters.telemetry import (
    ProcessResources,
    SchedulerLabels,
    census_series,
    controller_series,
    families,
    loop_series,
)
from deepline.adapters.telemetry import scheduler_series as scheduler
from tests.support.promql import labels_of, parse, selectors

_SUFFIXES = ("_bucket", "_count", "_sum")


def _process() -> set[str]:
    registry = CollectorRegistry()
    registry.register(ProcessResources())
    return {sample.name for family in registry.collect() for sample in family.samples}


PROCESS = _process()


def _known() -> dict[str, set[str]]:
    """Every series there is, with the labels it may have."""
    base = set(SchedulerLabels(schema="s").as_labels())
    known = {one.name: {*one.labels, *(base if one.scheduler else ())} for one in families.KNOWN}
    known |= {name: {"provider", "duty", "release"} for name in controller_series.NAMES}
    known |= {name: {"service", "machine"} for name in PROCESS}
    known |= {one.name: set(one.labels) for one in census_series.SHOWN}
    known |= {census_series.COUNTED_AT: set(), loop_series.LOOP_AGE: {"loop"}}
    known |= {scheduler.PREFIX + one.name: base for one in (*scheduler.GAUGES, *scheduler.COUNTERS)}
    known["deepline_telemetry_dropped_total"] = set()
    return known


def unknown_in(text: str) -> list[str]:
    """What an expression asks for that no process shows."""
    known = _known()
    problems: list[str] = []
    node = parse(text)
    labels = {"le", "instance"}
    for selector in selectors(node):
        name = selector.name
        for suffix in _SUFFIXES:
            name = name if name in known else name.removesuffix(suffix)
        if name not in known:
            problems.append(selector.name)
        labels |= known.get(name, set())
    return problems + [label for label in labels_of(node) if label not in labels]
