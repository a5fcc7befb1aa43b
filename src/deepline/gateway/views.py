"""Runs and their events as the public API shows them."""

import base64
import binascii
from datetime import datetime

from deepline.core.instants import EPOCH, MILLISECOND, to_ms
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.run import Run
from deepline.gateway.problems import Problem
from deepline.ports.crash_diagnostics import CrashDiagnostic
from deepline.ports.run_events import RunEvent
from deepline.ports.runs import RunOutcome
from deepline.ports.wire import result_to_json, why_to_json

_MICROSECOND = MILLISECOND / 1000


def run_view(run: Run, *, stranded: bool) -> dict[str, Json]:
    """A run as listed; `stranded` says that nobody serves its lane and it has not ended."""
    return {
        "runId": run.run_id,
        "orgId": run.org_id,
        "playName": run.play_name,
        "status": run.status.value,
        "queue": run.lane,
        "absurdReleaseId": run.release_id,
        "stranded": stranded,
        "attempt": run.attempt,
        "retryOf": run.retry_of,
        "retriedAs": run.retried_as,
        "submittedBy": run.submitted_by,
        "createdAtMs": to_ms(run.created_at),
        "cancelRequestedAtMs": _optional_ms(run.cancel_requested_at),
        "terminalAtMs": _optional_ms(run.terminal_at),
        "why": None if run.why is None else why_to_json(run.why),
    }


def outcome_view(outcome: RunOutcome, *, stranded: bool) -> dict[str, Json]:
    """A run with its result and the end of its log (Q54)."""
    view = run_view(outcome.run, stranded=stranded)
    view["result"] = None if outcome.result is None else result_to_json(outcome.result)
    view["logTail"] = list(outcome.log_tail)
    return view


def crash_view(found: CrashDiagnostic) -> JsonObject:
    """What a dead sandbox left behind, and when it was read."""
    return {**found.diagnostic, "capturedAtMs": to_ms(found.captured_at)}


def event_view(event: RunEvent) -> dict[str, Json]:
    """One event of a run."""
    return {
        "cursor": event.cursor,
        "eventId": event.event_id,
        "kind": event.kind,
        "payload": event.payload,
        "occurredAtMs": to_ms(event.occurred_at),
    }


def list_cursor(run: Run) -> str:
    """Where a list goes on after this run; opaque to callers."""
    microseconds = (run.created_at - EPOCH) // _MICROSECOND
    text = f"{microseconds}:{run.run_id}"
    return base64.urlsafe_b64encode(text.encode()).decode("ascii").rstrip("=")


def read_list_cursor(text: str) -> tuple[datetime, RunId]:
    """Read a cursor back. Raises a 400 `Problem`."""
    padded = text + "=" * (-len(text) % 4)
    try:
        decoded = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
        microseconds, _, run_id = decoded.partition(":")
        created_at = EPOCH + int(microseconds) * _MICROSECOND
    except (ValueError, OverflowError, binascii.Error):
        raise Problem(
            400, "invalid_query", "before: use the `next` of the page before, unchanged."
        ) from None
    return created_at, RunId(run_id)


def _optional_ms(at: datetime | None) -> int | None:
    return None if at is None else to_ms(at)
