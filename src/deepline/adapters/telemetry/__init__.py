"""The telemetry port on structured logs and metrics."""
