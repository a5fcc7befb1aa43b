"""Everything durable that is known of one run, for explaining it (DESIGN: outcome explained)."""

from collections.abc import Sequence
from datetime import datetime

import attrs

from deepline.core.model.run import Run
from deepline.core.model.why import Why


@attrs.frozen(kw_only=True)
class DecisionRecord:
    """A decision as written down at `at`; `attempt` is 0 for those about the run alone."""

    at: datetime
    attempt: int
    why: Why


@attrs.frozen(kw_only=True)
class AttemptRecord:
    """What became of one attempt, without its secret.

    `ended_reason` is a status or a retire reason.
    """

    attempt: int
    status: str
    worker: str | None
    engine_attempt: int
    created_at: datetime
    updated_at: datetime
    heartbeat_at: datetime | None
    heartbeats: int
    sandbox_provider: str | None
    sandbox_id: str | None
    runner_terminal_status: str | None
    runner_terminal_at: datetime | None
    ended_reason: str | None


@attrs.frozen(kw_only=True)
class EngineRecord:
    """The engine's side: `state` is the task's, `None` when the task is missing."""

    state: str | None
    attempt: int | None
    due_at: datetime | None
    claimed_by: str | None
    claim_expires_at: datetime | None


@attrs.frozen(kw_only=True)
class FactRecord:
    """One outbox fact and how its delivery stands."""

    seq: int
    event_id: str
    kind: str
    due_at: datetime
    attempts: int
    delivered_at: datetime | None
    dead_at: datetime | None
    last_error: str | None


@attrs.frozen(kw_only=True)
class CleanupRecord:
    """One cleanup obligation and how far it is."""

    attempt: int
    provider: str
    sandbox_id: str | None
    sandbox_name: str | None
    cleanup_attempt: int
    failure_count: int
    due_at: datetime
    accepted_at: datetime | None
    done_at: datetime | None


@attrs.frozen(kw_only=True)
class RunEvidence:
    """One run with all its durable facts, read at `read_at` by the store's clock."""

    run: Run
    read_at: datetime
    attempts: Sequence[AttemptRecord] = ()
    decisions: Sequence[DecisionRecord] = ()
    engine: EngineRecord | None = None
    facts: Sequence[FactRecord] = ()
    cleanup: Sequence[CleanupRecord] = ()
    lane_last_claim_at: datetime | None = None
    queue_position: int | None = None
