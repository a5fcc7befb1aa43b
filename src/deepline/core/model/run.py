"""A run and how it ends (C21, C27, Q37)."""

import enum
from datetime import datetime

import attrs

from deepline.core.model.identity import Lane, OrgId, ReleaseId, RunId
from deepline.core.model.why import Why


class RunStatus(enum.StrEnum):
    """Where a run stands. The last three are terminal and never change (I01)."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """True for completed, failed and cancelled."""
        return self in _TERMINAL


_TERMINAL = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})


@attrs.frozen(kw_only=True)
class Run:
    """The run row: the one place that says whether and how the run ended.

    `task_id` is the engine task, on `lane`. `attempt` is the newest attempt, 0 before the first.
    `why` is the reason of the terminal once there is one. `retry_of` is the run that this one runs
    again, `retried_as` the newest one that runs this one again; `submitted_by` names the API key of
    whoever asked for it.
    """

    run_id: RunId
    org_id: OrgId
    play_name: str
    status: RunStatus
    lane: Lane
    release_id: ReleaseId | None
    task_id: str | None
    attempt: int
    created_at: datetime
    created_projected_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    terminal_at: datetime | None = None
    why: Why | None = None
    retry_of: RunId | None = None
    retried_as: RunId | None = None
    submitted_by: str | None = None
