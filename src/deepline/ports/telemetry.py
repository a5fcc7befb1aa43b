"""Telling the world: events by their exact names, and counters (C62)."""

from typing import Protocol

from deepline.core.model.json_value import Json


class Telemetry(Protocol):
    """Synchronous and never failing: a lost event must not disturb a run.

    `name` is the bracketed event name of the catalogue; fields hold no secret, errors are their
    message. Machine-consumed events are rendered as strict JSON by the adapter.
    """

    def info(self, channel: str, name: str, **fields: Json) -> None:
        """Record a normal event."""
        ...

    def warn(self, channel: str, name: str, **fields: Json) -> None:
        """Record something an operator may want to know."""
        ...

    def error(self, channel: str, name: str, **fields: Json) -> None:
        """Record something that was not meant to happen, or that ended a run."""
        ...

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter; label values come from bounded sets."""
        ...

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add one observation to a histogram."""
        ...
