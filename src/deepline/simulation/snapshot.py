"""One run as it stands between two steps of the store, small enough to be taken after each."""

from datetime import datetime
from typing import NamedTuple, TypeAlias

from deepline.adapters.memory import World
from deepline.adapters.memory.engine_queue import EngineRun
from deepline.adapters.memory.rows import OutboxLeaseRow, RunRow
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.checkpoint import SilenceWatch
from deepline.core.model.evidence import DecisionRecord
from deepline.core.model.identity import AttemptKey, LeaseToken
from deepline.core.model.result import RunnerTerminal
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import Suspension
from deepline.core.model.why import Why

OperationState: TypeAlias = tuple[str, str | None, bool, int, datetime | None]
"""An operation's state and sandbox, whether its deletion is owed, the job's claims, its end."""


class Snapshot(NamedTuple):
    """The durable state of one run, its newest attempt and its engine task."""

    status: RunStatus
    attempt: int
    created_ack: datetime | None
    ended_at: datetime | None
    terminal: RunnerTerminal | None
    why: Why | None
    attempt_status: AttemptStatus | None
    lease_token: LeaseToken | None
    beats: int
    suspension: Suspension | None
    runner_terminal: RunnerTerminal | None
    silence: SilenceWatch | None
    outage_started_at: datetime | None
    claim_owner: str | None
    engine: EngineRun | None
    engine_state: str
    due_at: datetime | None
    claimed_by: str | None
    decisions: int
    decision: DecisionRecord | None
    facts: int
    delivered: int
    applied: int
    outbox_lease: OutboxLeaseRow | None
    operations: tuple[OperationState, ...]
    cleanup_events: int

    @property
    def live(self) -> bool:
        """True while the newest attempt is running or waiting and the run has not ended."""
        return self.ended_at is None and self.attempt_status in _LIVE


BLANK = Snapshot(
    status=RunStatus.QUEUED,
    attempt=0,
    created_ack=None,
    ended_at=None,
    terminal=None,
    why=None,
    attempt_status=None,
    lease_token=None,
    beats=0,
    suspension=None,
    runner_terminal=None,
    silence=None,
    outage_started_at=None,
    claim_owner=None,
    engine=None,
    engine_state="",
    due_at=None,
    claimed_by=None,
    decisions=0,
    decision=None,
    facts=0,
    delivered=0,
    applied=0,
    outbox_lease=None,
    operations=(),
    cleanup_events=0,
)
"""A run before it was submitted."""

_LIVE = frozenset({AttemptStatus.RUNNING, AttemptStatus.WAITING})


def take(world: World, run: RunRow) -> Snapshot:
    """Take the snapshot of one run."""
    run_id = run.run_id
    row = world.attempts.get(AttemptKey(run_id, run.attempt)) if run.attempt else None
    task = world.queue.tasks.get(run.task_id) if run.task_id else None
    engine = None if task is None else task.current
    decisions = world.decisions.get(run_id)
    facts = world.outbox.get(run_id, ())
    return Snapshot(
        run.status,
        run.attempt,
        run.created_projected_at,
        run.terminal_at,
        run.terminal,
        run.why,
        None if row is None else row.status,
        None if row is None else row.lease_token,
        0 if row is None else row.heartbeat_seq,
        None if row is None else row.suspension,
        None if row is None else row.runner_terminal,
        None if row is None else row.silence,
        None if row is None else row.outage_started_at,
        None if row is None else row.claim_owner,
        engine,
        "" if engine is None else engine.state,
        None if engine is None else engine.available_at,
        None if engine is None else engine.claimed_by,
        len(decisions) if decisions else 0,
        decisions[-1] if decisions else None,
        len(facts),
        sum([fact.delivered_at is not None for fact in facts]),
        len(world.run_events.get(run_id, ())),
        world.outbox_leases.get(run_id),
        _operations(world, run) if run_id in world.operations_of_run else (),
        len(world.cleanup_events.get(run_id, ())),
    )


def _operations(world: World, run: RunRow) -> tuple[OperationState, ...]:
    states: list[OperationState] = []
    for row in world.operations_of_run[run.run_id]:
        job = world.cleanup_jobs.get(row.operation.key)
        if job is None:
            states.append((row.state, row.sandbox_id, False, 0, None))
        else:
            owed = job.done_at is None
            states.append((row.state, row.sandbox_id, owed, job.cleanup_attempt, job.done_at))
    return tuple(states)
