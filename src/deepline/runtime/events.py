"""Saying what a rule wants said (C62)."""

from deepline.core.model.log_event import Level, LogEvent
from deepline.ports.telemetry import Telemetry


def emit(telemetry: Telemetry, event: LogEvent) -> None:
    """Record an event that a rule made, at its level."""
    match event.level:
        case Level.INFO:
            telemetry.info(event.channel, event.name, **event.fields)
        case Level.WARN:
            telemetry.warn(event.channel, event.name, **event.fields)
        case Level.ERROR:
            telemetry.error(event.channel, event.name, **event.fields)
