"""The telemetry port of a real process: lines on a stream, counts in memory (C62)."""

from deepline.adapters.telemetry.log_lines import LogLevel, LogLines
from deepline.adapters.telemetry.metrics import Metrics
from deepline.adapters.telemetry.pacing import Pacing
from deepline.core.event_catalogue import title
from deepline.core.model.json_value import Json
from deepline.ports.clock import Clock

_EVENTS = "deepline_events_total"
_LOOP_FAILURES = frozenset(
    {
        "cleanup_job_failed",
        "immediate_dispatch_settled",
        "outbox_delivery_failed",
        "runtime_sandbox_cleanup_failed",
        "slow_checkout",
        "write_repeated",
    }
)
"""Events that name a run and still come from a loop, as often as it fails."""


class ProcessTelemetry:
    """Implements `Telemetry`. Failures that come again and again are counted all, told some."""

    def __init__(self, lines: LogLines, metrics: Metrics, clock: Clock) -> None:
        self._lines = lines
        self._metrics = metrics
        self._clock = clock
        self._pacing = Pacing()

    def info(self, channel: str, name: str, **fields: Json) -> None:
        self._tell(LogLevel.INFO, channel, name, fields)

    def warn(self, channel: str, name: str, **fields: Json) -> None:
        self._tell_paced(LogLevel.WARN, channel, name, fields)

    def error(self, channel: str, name: str, **fields: Json) -> None:
        self._tell_paced(LogLevel.ERROR, channel, name, fields)

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        self._metrics.count(name, amount, labels)

    def observe(self, name: str, value: float, **labels: str) -> None:
        self._metrics.observe(name, value, labels)

    def _tell(self, level: LogLevel, channel: str, name: str, fields: dict[str, Json]) -> None:
        self._metrics.count(_EVENTS, 1.0, {"level": level.value, "event": name})
        self._lines.write(level, title(channel, name), fields)

    def _tell_paced(
        self, level: LogLevel, channel: str, name: str, fields: dict[str, Json]
    ) -> None:
        if "runId" in fields and name not in _LOOP_FAILURES:
            # What happened to one run is never held back.
            self._tell(level, channel, name, fields)
            return
        controller = fields.get("controller", "")
        withheld = self._pacing.admit(f"{channel} {name} {controller}", self._clock.monotonic())
        if withheld is None:
            self._metrics.count(_EVENTS, 1.0, {"level": level.value, "event": name})
            return
        if withheld:
            fields["withheld"] = withheld
        self._tell(level, channel, name, fields)
