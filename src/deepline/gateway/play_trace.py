"""The play's own span: its runner is standard library only and says when it began (C62)."""

from datetime import timedelta

from starlette.requests import Request

from deepline.core.instants import EPOCH, MILLISECOND
from deepline.core.model.result import Failed, RunnerTerminal
from deepline.core.trace_parent import HEADER, read_trace_parent
from deepline.gateway.executor_tokens import RunnerIdentity
from deepline.ports.clock import Clock
from deepline.ports.tracing import Tracing

BEGAN = "x-deepline-began-ms"
LONGEST = timedelta(days=7)
"""No play takes longer; a runner's clock that says so is wrong."""


def trace_play(
    tracing: Tracing,
    clock: Clock,
    request: Request,
    runner: RunnerIdentity,
    terminal: RunnerTerminal,
) -> None:
    """Record the span of a play whose terminal was just pushed, if its runner is in a trace."""
    parent = read_trace_parent(request.headers.get(HEADER))
    began = request.headers.get(BEGAN, "")
    if parent is None or not (began.isascii() and began.isdigit() and len(began) <= 14):
        return
    began_at, now = EPOCH + int(began) * MILLISECOND, clock.now()
    if not now - LONGEST <= began_at <= now:
        return
    status = "failed" if isinstance(terminal, Failed) else "completed"
    tracing.record(
        "deepline.play",
        parent=parent,
        began_at=began_at,
        attributes={
            "deepline.run_id": runner.key.run_id,
            "deepline.attempt": runner.key.attempt,
            "deepline.status": status,
        },
    )
