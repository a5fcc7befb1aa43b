"""The rows of the in-memory store: the same columns as the tables of record (C59, Q29).

Rows hold values of the model, not JSON; only what truly changes is mutable.
"""

from collections.abc import Sequence
from datetime import datetime

import attrs

from deepline.core.heartbeats import identity
from deepline.core.model.attempt import AttemptStatus, RetireReason
from deepline.core.model.checkpoint import Checkpoint, SilenceWatch
from deepline.core.model.heartbeat import NEVER_BEATEN, HeartbeatIdentity, Liveness
from deepline.core.model.identity import AttemptKey, Lane, LeaseToken, OrgId, ReleaseId, RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.launch import Launch
from deepline.core.model.ledger import Fact
from deepline.core.model.result import RunnerTerminal, Suspended
from deepline.core.model.run import RunStatus
from deepline.core.model.sandbox import Operation, RuntimeEnvironment
from deepline.core.model.suspension import EventSuspension, SleepSuspension, Suspension
from deepline.core.model.why import Why


@attrs.define(kw_only=True)
class LaneRow:
    """A lane and when it was last served; `org_limit` is that of its newest claim."""

    lane: Lane
    release_id: ReleaseId | None
    created_at: datetime
    last_claim_at: datetime | None = None
    org_limit: int | None = None
    draining: bool = False
    handed_over: bool = False


@attrs.frozen
class LaunchRow:
    """What was submitted; never changes (I26)."""

    launch: Launch
    input_json: Json
    checkpoint: Checkpoint = attrs.field(factory=Checkpoint)


@attrs.define(kw_only=True)
class RunRow:
    """Whether and how the run ended; `attempt` is the newest attempt, 0 before the first."""

    run_id: RunId
    org_id: OrgId
    play_name: str
    lane: Lane
    release_id: ReleaseId | None
    placement_key: str
    created_at: datetime
    task_id: str | None
    status: RunStatus = RunStatus.QUEUED
    admitted_at: datetime | None = None
    attempt: int = 0
    created_projected_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    cancelled_by: str | None = None
    outage_started_at: datetime | None = None
    terminal: RunnerTerminal | None = None
    terminal_at: datetime | None = None
    log_tail: Sequence[str] = ()
    why: Why | None = None

    @property
    def ended(self) -> bool:
        """True once a scheduler terminal is written."""
        return self.terminal_at is not None


@attrs.define(kw_only=True)
class AttemptRow:
    """One attempt: its fence, its heart, what it waits for and what its runner reported.

    `adopted` stays true from the loss of the claim that bound its sandbox until it is parked.
    """

    run_id: RunId
    attempt: int
    lease_token: LeaseToken
    status: AttemptStatus
    engine_attempt: int
    worker: str | None
    claim_owner: str | None
    created_at: datetime
    updated_at: datetime
    heartbeat_at: datetime | None = None
    heartbeat_seq: int = 0
    suspension: Suspension | None = None
    checkpoint: Checkpoint = attrs.field(factory=Checkpoint)
    silence: SilenceWatch | None = None
    runner_terminal: RunnerTerminal | None = None
    runner_terminal_at: datetime | None = None
    pending: Suspended | None = None
    outage_started_at: datetime | None = None
    retired_reason: RetireReason | None = None
    adopted: bool = False

    @property
    def live(self) -> bool:
        """True while running or waiting."""
        return self.status in _LIVE

    @property
    def may_have_started(self) -> bool:
        """True once a runner was about to be started: then play code may have run."""
        return self.suspension is not None or self.runner_terminal is not None

    @property
    def suspended(self) -> bool:
        """True while the play is suspended, parked or about to be: no runner speaks for it."""
        return self.pending is not None or isinstance(
            self.suspension, SleepSuspension | EventSuspension
        )

    @property
    def heartbeat(self) -> HeartbeatIdentity:
        """The identity of the newest beat (Q51)."""
        if self.heartbeat_at is None:
            return NEVER_BEATEN
        return identity(self.heartbeat_at, self.heartbeat_seq)

    @property
    def liveness(self) -> Liveness:
        """The heart as a value."""
        return Liveness(self.heartbeat, self.heartbeat_at, self.status.value)


_LIVE = frozenset({AttemptStatus.RUNNING, AttemptStatus.WAITING})


@attrs.define(kw_only=True)
class OutboxRow:
    """One fact and how its delivery stands."""

    fact: Fact
    due_at: datetime
    attempts: int = 0
    delivered_at: datetime | None = None
    dead_at: datetime | None = None
    last_error: str | None = None

    @property
    def open(self) -> bool:
        """True while it still is to be delivered."""
        return self.delivered_at is None and self.dead_at is None

    def is_due(self, now: datetime) -> bool:
        """True when it is to be delivered now."""
        return self.open and self.due_at <= now


@attrs.frozen
class OutboxLeaseRow:
    """Who may deliver a run's facts, until when."""

    owner: str
    expires_at: datetime


@attrs.frozen
class DutyLeaseRow:
    """Who does a duty, until when."""

    owner: str
    expires_at: datetime


@attrs.define(kw_only=True)
class SignalRow:
    """A stored signal and the wait that claimed it."""

    signal_id: str
    event_key: str
    boundary_id: str | None
    payload: JsonObject
    claimed_boundary_id: str | None = None
    claimed_at: datetime | None = None


@attrs.define(kw_only=True)
class OperationRow:
    """A sandbox operation; `state` is reserved, bound, deleting, gone or abandoned."""

    operation: Operation
    reserved_at: datetime
    state: str = "reserved"
    sandbox_id: str | None = None
    routing_domain: str | None = None
    bound_at: datetime | None = None
    gone_at: datetime | None = None
    environment: RuntimeEnvironment | None = None

    @property
    def held(self) -> bool:
        """True while it counts against capacity."""
        return self.state in ("reserved", "bound", "deleting")


@attrs.define(kw_only=True)
class CleanupJobRow:
    """One obligation to delete, one for each operation."""

    job_id: str
    key: AttemptKey
    org_id: OrgId
    provider: str
    operation_key: str
    sandbox_id: str | None
    sandbox_name: str | None
    operation_token: str | None
    routing_domain: str | None
    due_at: datetime
    created_at: datetime
    capture_crash: bool = False
    searched: bool = False
    cleanup_attempt: int = 0
    failure_count: int = 0
    owner: str | None = None
    lease_expires_at: datetime | None = None
    done_at: datetime | None = None


@attrs.frozen(kw_only=True)
class CleanupEventRow:
    """One durable step of a cleanup."""

    job_id: str
    key: AttemptKey
    provider: str
    sandbox_id: str | None
    routing_domain: str | None
    kind: str
    fields: JsonObject
    at: datetime


@attrs.define(kw_only=True)
class UsageRow:
    """One sandbox's time."""

    key: AttemptKey
    org_id: OrgId
    provider: str
    sandbox_id: str
    started_at: datetime
    ended_at: datetime | None = None


@attrs.frozen(kw_only=True)
class SheetRowRow:
    """One finished row of a sheet."""

    row_index: int
    attempt: int
    input_row: Json
    output: Json
    error: str | None


@attrs.define(kw_only=True)
class SheetTable:
    """One sheet of a run with its finished rows by index."""

    total: int
    rows: dict[int, SheetRowRow] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class SecretRow:
    """A sealed secret and when it was stored."""

    sealed: bytes = attrs.field(repr=False)
    updated_at: datetime


@attrs.define(kw_only=True)
class ReceiptRow:
    """An external action claimed by an attempt; `state` is leased, done or released."""

    receipt_key: str
    attempt: int
    holder: str
    state: str = "leased"
    output: Json = None
