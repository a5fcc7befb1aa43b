"""A log event as a value, so that which event and which fields can be a rule (C25, C45, C62)."""

import enum

import attrs

from deepline.core.model.json_value import JsonObject


class Level(enum.StrEnum):
    """How loud: the names of the telemetry port's methods."""

    INFO = "info"
    WARN = "warn"
    ERROR = "error"


@attrs.frozen(kw_only=True)
class LogEvent:
    """One event of the catalogue: `[channel] name` with its fields."""

    level: Level
    channel: str
    name: str
    fields: JsonObject
