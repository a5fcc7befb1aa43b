"""Everything durable about one run, gathered from the tables in memory."""

from collections.abc import Iterator

from deepline.adapters.memory.cleanup import ACCEPTED
from deepline.adapters.memory.rows import AttemptRow, CleanupJobRow, OutboxRow, RunRow
from deepline.adapters.memory.world import World
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.evidence import (
    AttemptRecord,
    CleanupRecord,
    EngineRecord,
    FactRecord,
    RunEvidence,
)
from deepline.core.model.result import Completed
from deepline.core.model.run import Run
from deepline.core.model.suspension import DetachedSuspension

NEWEST = 500


def of_run(world: World, row: RunRow, run: Run) -> RunEvidence:
    """Gather the evidence of one run; each list holds its newest 500, oldest first."""
    lane = world.lanes.get(row.lane)
    return RunEvidence(
        run=run,
        read_at=world.now(),
        attempts=[_attempt(attempt) for attempt in world.attempts_of_run(row)][-NEWEST:],
        decisions=world.decisions.get(row.run_id, [])[-NEWEST:],
        engine=_engine(world, row),
        facts=[_fact(fact) for fact in world.outbox.get(row.run_id, ())][-NEWEST:],
        cleanup=[_cleanup(world, job) for job in _jobs(world, row)][-NEWEST:],
        lane_last_claim_at=None if lane is None else lane.last_claim_at,
        queue_position=_position(world, row),
    )


def _attempt(row: AttemptRow) -> AttemptRecord:
    detached = row.suspension if isinstance(row.suspension, DetachedSuspension) else None
    terminal = row.runner_terminal
    return AttemptRecord(
        attempt=row.attempt,
        status=row.status.value,
        worker=row.worker,
        engine_attempt=row.engine_attempt,
        created_at=row.created_at,
        updated_at=row.updated_at,
        heartbeat_at=row.heartbeat_at,
        heartbeats=row.heartbeat_seq,
        sandbox_provider=None if detached is None else detached.sandbox_provider,
        sandbox_id=None if detached is None else detached.sandbox_id,
        runner_terminal_status=None
        if terminal is None
        else ("completed" if isinstance(terminal, Completed) else "failed"),
        runner_terminal_at=row.runner_terminal_at,
        ended_reason=_ended_reason(row),
    )


def _ended_reason(row: AttemptRow) -> str | None:
    if row.live:
        return None
    if row.status is AttemptStatus.RETIRED and row.retired_reason is not None:
        return row.retired_reason.value
    return row.status.value


def _engine(world: World, row: RunRow) -> EngineRecord | None:
    task = world.queue.tasks.get(row.task_id or "")
    if task is None:
        return None
    current = task.current
    return EngineRecord(
        state=task.state,
        attempt=current.attempt,
        due_at=current.available_at,
        claimed_by=current.claimed_by,
        claim_expires_at=current.claim_expires_at,
    )


def _fact(row: OutboxRow) -> FactRecord:
    return FactRecord(
        seq=row.fact.seq,
        event_id=row.fact.event_id,
        kind=row.fact.kind,
        due_at=row.due_at,
        attempts=row.attempts,
        delivered_at=row.delivered_at,
        dead_at=row.dead_at,
        last_error=row.last_error,
    )


def _jobs(world: World, row: RunRow) -> Iterator[CleanupJobRow]:
    for operation in world.operations_of_run.get(row.run_id, ()):
        job = world.cleanup_jobs.get(operation.operation.key)
        if job is not None:
            yield job


def _cleanup(world: World, job: CleanupJobRow) -> CleanupRecord:
    events = world.cleanup_events.get(job.key.run_id, ())
    accepted = (
        event.at for event in events if (event.kind, event.job_id) == (ACCEPTED, job.job_id)
    )
    return CleanupRecord(
        attempt=job.key.attempt,
        provider=job.provider,
        sandbox_id=job.sandbox_id,
        sandbox_name=job.sandbox_name,
        cleanup_attempt=job.cleanup_attempt,
        failure_count=job.failure_count,
        due_at=job.due_at,
        accepted_at=next(accepted, None),
        done_at=job.done_at,
    )


def _position(world: World, row: RunRow) -> int | None:
    """The run's place in its organisation's line, from 1, while it is held back."""
    line = world.held_back.get(row.lane, {}).get(row.org_id, {})
    return list(line).index(row.run_id) + 1 if row.run_id in line else None
