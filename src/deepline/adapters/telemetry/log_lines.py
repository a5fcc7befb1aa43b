"""Log lines on a stream: strict JSON for machines, columns for people (C62).

Nothing global is configured: the logger is a value that the composition root makes. Only
`forward_standard_logs` touches the process, for what libraries say through `logging`.
"""

import enum
import json
import logging
import math
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TextIO

import structlog

from deepline.adapters.telemetry.redaction import Redactor
from deepline.core.model.json_value import Json
from deepline.ports.clock import Clock


class LogFormat(enum.StrEnum):
    """How a line looks; `AUTO` is columns on a terminal and JSON elsewhere."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogLevel(enum.StrEnum):
    """The least important lines that are written."""

    INFO = "info"
    WARN = "warn"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """Higher is more important."""
        return list(LogLevel).index(self)


class LogLines:
    """Writes events as lines; never raises, since a lost line must not disturb a run (C62)."""

    def __init__(
        self,
        stream: TextIO,
        *,
        clock: Clock,
        redactor: Redactor,
        shape: LogFormat = LogFormat.AUTO,
        least: LogLevel = LogLevel.INFO,
    ) -> None:
        self._clock = clock
        self._redactor = redactor
        self._least = least
        terminal = stream.isatty()
        if shape is LogFormat.AUTO:
            shape = LogFormat.CONSOLE if terminal else LogFormat.JSON
        render: Any = _json if shape is LogFormat.JSON else _columns(colours=terminal)
        self._logger = structlog.wrap_logger(
            structlog.WriteLogger(stream), processors=[render], wrapper_class=structlog.BoundLogger
        ).bind()

    def write(self, level: LogLevel, event: str, fields: Mapping[str, Json]) -> None:
        """Write one line, its secrets masked."""
        if level.rank < self._least.rank:
            return
        line: dict[str, Json] = {
            "at": self._clock.now().isoformat(timespec="milliseconds"),
            "level": level.value,
        }
        for name, value in self._redactor.fields(fields).items():
            line[f"{name}_" if name in _RESERVED else name] = value
        try:
            self._logger.msg(event, **line)
        except (OSError, ValueError):
            # The reader of our output is gone; there is nobody left to tell.
            return


_RESERVED = frozenset({"at", "level", "event"})


def _json(_: object, __: str, line: MutableMapping[str, Any]) -> str:
    """One strict JSON object; numbers that JSON does not know become text."""
    event = line.pop("event")
    ordered = {"at": line.pop("at"), "level": line.pop("level"), "event": event, **line}
    return json.dumps(_storable(ordered), separators=(",", ":"), allow_nan=False)


def _storable(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    return value


def _columns(*, colours: bool) -> Callable[[object, str, MutableMapping[str, Any]], str]:
    renderer = structlog.dev.ConsoleRenderer(
        colors=colours, pad_event_to=48, sort_keys=False, timestamp_key="at"
    )

    def render(logger: object, name: str, line: MutableMapping[str, Any]) -> str:
        line["at"] = str(line["at"])[11:23]
        rendered: str = renderer(logger, name, line)
        # A value of several lines must not look like several lines of log.
        return rendered.replace("\n", "\\n")

    return render


class _Forward(logging.Handler):
    """Passes what libraries log on, as lines of ours."""

    def __init__(self, lines: LogLines) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; an exception keeps its type, not its trace."""
        level = LogLevel.ERROR if record.levelno >= logging.ERROR else LogLevel.WARN
        fields: dict[str, Json] = {"message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            fields["errorType"] = record.exc_info[0].__name__
        self._lines.write(level, f"[{record.name}] logged", fields)


def forward_standard_logs(lines: LogLines) -> Callable[[], None]:
    """Send warnings and errors of `logging` to `lines`; the answer undoes it."""
    root = logging.getLogger()
    forward = _Forward(lines)
    root.addHandler(forward)

    def undo() -> None:
        root.removeHandler(forward)

    return undo
