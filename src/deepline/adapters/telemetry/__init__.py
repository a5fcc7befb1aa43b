"""Logs and metrics of one process (C58, C62, Q58): structlog lines, Prometheus text."""

from deepline.adapters.telemetry.log_lines import (
    LogFormat,
    LogLevel,
    LogLines,
    forward_standard_logs,
)
from deepline.adapters.telemetry.metrics import Metrics
from deepline.adapters.telemetry.process_resources import ProcessResources
from deepline.adapters.telemetry.process_telemetry import ProcessTelemetry
from deepline.adapters.telemetry.redaction import Redactor
from deepline.adapters.telemetry.scheduler_series import (
    SchedulerLabels,
    SchedulerSeries,
    SchedulerSnapshot,
)

__all__ = [
    "LogFormat",
    "LogLevel",
    "LogLines",
    "Metrics",
    "ProcessResources",
    "ProcessTelemetry",
    "Redactor",
    "SchedulerLabels",
    "SchedulerSeries",
    "SchedulerSnapshot",
    "forward_standard_logs",
]
