"""One scheduler-level try of a run (C12, C17, C29)."""

import enum
from datetime import datetime

import attrs

from deepline.core.model.checkpoint import Checkpoint, SilenceWatch
from deepline.core.model.heartbeat import Liveness
from deepline.core.model.identity import AttemptRef
from deepline.core.model.result import RunnerTerminal, Suspended
from deepline.core.model.suspension import Suspension


class AttemptStatus(enum.StrEnum):
    """`running` and `waiting` are live; the others are over."""

    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RETIRED = "retired"


class RetireReason(enum.StrEnum):
    """Why an attempt was given up without a terminal, the run being queued again."""

    TOKEN_OUTAGE = "token_outage"  # noqa: S105 - a reason, not a secret
    CAPACITY = "capacity"
    PRE_CODE = "pre_code"
    LEASE_LOST = "lease_lost"
    HANDED_OVER = "handed_over"
    FAILED = "attempt_failed"


@attrs.frozen(kw_only=True)
class Attempt:
    """An attempt as its row stood when read.

    `suspension` is set once a runner was about to be started, so that whoever claims the run
    after a crash knows which sandbox may already run the play. `suspension_malformed` says that
    something was stored which could not be parsed; then `suspension` is `None`.
    `pending` is the suspension that the runner handed in and no worker has parked yet.
    `outage_started_at` is the start of the unbroken executor-token outage (C17).
    """

    ref: AttemptRef
    status: AttemptStatus
    engine_attempt: int
    liveness: Liveness
    created_at: datetime
    suspension: Suspension | None = None
    suspension_malformed: bool = False
    checkpoint: Checkpoint = attrs.field(factory=Checkpoint)
    silence: SilenceWatch | None = None
    runner_terminal: RunnerTerminal | None = None
    pending: Suspended | None = None
    outage_started_at: datetime | None = None
