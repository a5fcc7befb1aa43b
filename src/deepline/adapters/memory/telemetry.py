"""Telemetry that remembers, for tests and simulation (C62)."""

from collections import Counter

import attrs

from deepline.core.model.json_value import Json, JsonObject


@attrs.frozen
class RecordedEvent:
    """One event as it was told."""

    level: str
    channel: str
    name: str
    fields: JsonObject


@attrs.define(eq=False)
class MemoryTelemetry:
    """Keeps the newest `bound` events, and all counts and observations by name."""

    bound: int = 10_000
    events: list[RecordedEvent] = attrs.field(factory=list)
    counts: Counter[str] = attrs.field(factory=Counter)
    observations: dict[str, list[float]] = attrs.field(factory=dict)

    def info(self, channel: str, name: str, **fields: Json) -> None:
        self._keep(RecordedEvent("info", channel, name, fields))

    def warn(self, channel: str, name: str, **fields: Json) -> None:
        self._keep(RecordedEvent("warn", channel, name, fields))

    def error(self, channel: str, name: str, **fields: Json) -> None:
        self._keep(RecordedEvent("error", channel, name, fields))

    def _keep(self, event: RecordedEvent) -> None:
        self.events.append(event)
        if len(self.events) > self.bound:
            del self.events[: self.bound // 10 or 1]

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        self.counts[_series(name, labels)] += amount  # type: ignore[assignment]

    def observe(self, name: str, value: float, **labels: str) -> None:
        kept = self.observations.setdefault(_series(name, labels), [])
        kept.append(value)
        del kept[: -self.bound]

    def named(self, name: str) -> list[RecordedEvent]:
        """All kept events of one name, oldest first."""
        return [event for event in self.events if event.name == name]


def _series(name: str, labels: dict[str, str]) -> str:
    inside = ",".join(f"{label}={value}" for label, value in sorted(labels.items()))
    return f"{name}{{{inside}}}" if inside else name
