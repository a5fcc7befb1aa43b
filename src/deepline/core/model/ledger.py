"""Facts for the run ledger, the view that users read (C22, C26)."""

from datetime import datetime

import attrs

from deepline.core.model.identity import RunId
from deepline.core.model.json_value import JsonObject

CREATED = "run.created"
PROGRESS_SETTLED = "run.progress_settled"
TERMINAL_KINDS = ("run.completed", "run.failed", "run.cancelled")


def created_event_id(run_id: RunId) -> str:
    """The id of a run's created fact."""
    return f"run-created:{run_id}"


def terminal_event_id(run_id: RunId) -> str:
    """The id of a run's terminal fact; one per run, for ever (I20)."""
    return f"run-terminal:{run_id}"


@attrs.frozen(kw_only=True)
class Fact:
    """One durable fact of a run, delivered in `seq` order and applied once by `event_id`."""

    run_id: RunId
    seq: int
    event_id: str
    kind: str
    payload: JsonObject
    occurred_at: datetime


@attrs.frozen(kw_only=True)
class SheetCounts:
    """How many rows of one sheet are done, in the data plane's own account (C23)."""

    table_namespace: str
    completed: int
    failed: int
    total: int


@attrs.frozen(kw_only=True)
class SettledProgress:
    """One settled progress fact; precedes the terminal fact in the same commit (C22)."""

    event_id: str
    payload: JsonObject
