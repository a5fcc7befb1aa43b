"""Reading what a process exposes, as Prometheus does."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import attrs
from prometheus_client.parser import text_string_to_metric_families


@attrs.frozen
class Sample:
    """One line of an exposition."""

    name: str
    labels: Mapping[str, str]
    value: float

    def has(self, **labels: str) -> bool:
        """Whether it carries these labels."""
        return all(self.labels.get(name) == value for name, value in labels.items())


@attrs.frozen(slots=False)
class Scrape:
    """One exposition, and when it was read, in seconds."""

    samples: Sequence[Sample]
    at_s: float = 0.0

    @classmethod
    def of(cls, text: str | bytes, at_s: float = 0.0) -> "Scrape":
        """Parse a whole exposition."""
        exposed = text.decode() if isinstance(text, bytes) else text
        return cls(
            [
                Sample(sample.name, dict(sample.labels), sample.value)
                for family in text_string_to_metric_families(exposed)
                for sample in family.samples
            ],
            at_s,
        )

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[Sample]]:
        """The samples of each series' name."""
        found: dict[str, list[Sample]] = {}
        for sample in self.samples:
            found.setdefault(sample.name, []).append(sample)
        return found

    def values(self, name: str, **labels: str) -> list[float]:
        """All values of a series with these labels among its own."""
        return [one.value for one in self.by_name.get(name, ()) if one.has(**labels)]

    def total(self, name: str, **labels: str) -> float:
        """Their sum, 0 for none."""
        return sum(self.values(name, **labels))
