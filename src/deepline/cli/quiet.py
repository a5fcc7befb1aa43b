"""Telemetry for commands that end in a moment: what fails is said by the command itself."""

from deepline.core.model.json_value import Json


class QuietTelemetry:
    """Implements `Telemetry` by keeping nothing."""

    def info(self, channel: str, name: str, **fields: Json) -> None:
        """Keep nothing."""

    def warn(self, channel: str, name: str, **fields: Json) -> None:
        """Keep nothing."""

    def error(self, channel: str, name: str, **fields: Json) -> None:
        """Keep nothing."""

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Keep nothing."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Keep nothing."""
