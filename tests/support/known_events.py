"""Watching that whatever is logged while a test runs is in the catalogue of events (C62)."""

from collections.abc import Callable

import pytest

from deepline.adapters.memory.telemetry import MemoryTelemetry, RecordedEvent
from deepline.adapters.telemetry import LogLevel, ProcessTelemetry
from deepline.core.event_catalogue import problem_of
from deepline.core.model.json_value import Json
from deepline.core.model.log_event import Level

_PACED = "withheld"
"""Added to a line that stands for several."""


def watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect what differs from the catalogue from now on."""
    problems: list[str] = []
    keep: Callable[[MemoryTelemetry, RecordedEvent], None] = MemoryTelemetry._keep
    tell = ProcessTelemetry._tell

    def check(channel: str, name: str, level: str, fields: set[str]) -> None:
        problem = problem_of(channel, name, Level(level), fields)
        if problem is not None:
            problems.append(problem)

    def kept(self: MemoryTelemetry, event: RecordedEvent) -> None:
        check(event.channel, event.name, event.level, set(event.fields))
        keep(self, event)

    def told(
        self: ProcessTelemetry, level: LogLevel, channel: str, name: str, fields: dict[str, Json]
    ) -> None:
        check(channel, name, level.value, set(fields) - {_PACED})
        tell(self, level, channel, name, fields)

    monkeypatch.setattr(MemoryTelemetry, "_keep", kept)
    monkeypatch.setattr(ProcessTelemetry, "_tell", told)
    return problems
