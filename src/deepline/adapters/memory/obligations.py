"""Cleanup obligations, written in the step that makes a sandbox unneeded (C50, C64, I13, I50)."""

from deepline.adapters.memory.rows import AttemptRow, CleanupJobRow, OperationRow, RunRow, UsageRow
from deepline.adapters.memory.world import World
from deepline.core.cleanup_authority import CleanupFacts, Withheld, cleanup_authority
from deepline.core.model.identity import AttemptKey, AttemptRef, OrgId
from deepline.core.model.sandbox import Operation, SandboxRef


def oblige_run(world: World, run: RunRow, *, crash_of: int | None = None) -> None:
    """Owe the deletion of everything the run may still hold; `crash_of` is captured first (C44)."""
    for row in world.operations_of_run.get(run.run_id, ()):
        if row.held:
            oblige(world, row, capture_crash=row.operation.attempt == crash_of)


def oblige_attempt(world: World, attempt: AttemptRow) -> None:
    """Owe the deletion of everything this attempt may hold."""
    for row in world.operations_of_run.get(attempt.run_id, ()):
        if row.held and row.operation.attempt == attempt.attempt:
            oblige(world, row)


def oblige(world: World, row: OperationRow, *, capture_crash: bool = False) -> CleanupJobRow:
    """Owe the deletion of one operation's sandbox; an obligation that exists stays as it is."""
    operation = row.operation
    row.state = "deleting"
    job = world.cleanup_jobs.get(operation.key)
    if job is None:
        job = CleanupJobRow(
            job_id=world.new_id(),
            key=AttemptKey(operation.run_id, operation.attempt),
            org_id=operation.org_id,
            provider=operation.provider,
            operation_key=operation.key,
            sandbox_id=row.sandbox_id,
            sandbox_name=operation.name,
            operation_token=operation.token,
            routing_domain=row.routing_domain,
            due_at=world.now(),
            created_at=world.now(),
        )
        world.cleanup_jobs[operation.key] = world.open_cleanup[job.job_id] = job
    job.capture_crash = job.capture_crash or capture_crash
    return job


def oblige_late(world: World, row: OperationRow) -> None:
    """Owe the deletion of a sandbox that came to light late, even if a search by name had ended.

    Its attempt was over for its maker when it was recorded (C64, I50).
    """
    job = oblige(world, row)
    job.sandbox_id, job.routing_domain = row.sandbox_id, row.routing_domain
    job.due_at, job.done_at = world.now(), None
    world.open_cleanup[job.job_id] = job


def record_sandbox(world: World, row: OperationRow, sandbox: SandboxRef) -> None:
    """Note which sandbox an operation made, and start its time (C46.4, C55)."""
    row.sandbox_id, row.routing_domain = sandbox.sandbox_id, sandbox.routing_domain
    row.bound_at = row.bound_at or world.now()
    if row.state != "deleting":
        row.state, row.gone_at = "bound", None
    add_usage(world, row)


def add_usage(world: World, row: OperationRow) -> bool:
    """Make sure the operation's sandbox has its usage row; True when it was added."""
    operation = row.operation
    rows = world.usage.setdefault(operation.run_id, [])
    key = AttemptKey(operation.run_id, operation.attempt)
    if row.sandbox_id is None or any(
        (use.key, use.provider, use.sandbox_id) == (key, operation.provider, row.sandbox_id)
        for use in rows
    ):
        return False
    started_at = row.bound_at or row.reserved_at
    rows.append(
        UsageRow(
            key=key,
            org_id=operation.org_id,
            provider=operation.provider,
            sandbox_id=row.sandbox_id,
            started_at=started_at,
            ended_at=row.gone_at and max(started_at, row.gone_at),
        )
    )
    return True


def operation_of(
    world: World, ref: AttemptRef, sandbox: SandboxRef, operation_key: str
) -> OperationRow:
    """The operation's row; one nobody reserved is written down now, so that nothing leaks."""
    row = world.operations.get(operation_key)
    if row is None:
        run = world.runs.get(ref.run_id)
        operation = Operation(
            key=operation_key,
            token=operation_key,
            name=sandbox.sandbox_id,
            provider=sandbox.provider,
            org_id=OrgId("") if run is None else run.org_id,
            run_id=ref.run_id,
            attempt=ref.attempt,
        )
        row = add_operation(world, operation)
    return row


def add_operation(world: World, operation: Operation) -> OperationRow:
    """Write one operation down."""
    row = OperationRow(operation=operation, reserved_at=world.now())
    world.operations[operation.key] = row
    world.operations_of_run.setdefault(operation.run_id, []).append(row)
    return row


def needed(world: World, job: CleanupJobRow) -> bool:
    """May a runner of a live attempt be at work in the sandbox of this job (I12)?"""
    attempt = world.live_attempt(job.key)
    facts = CleanupFacts(
        attempt_live=attempt is not None,
        waits_for=None if attempt is None else attempt.suspension,
        sandbox_id=job.sandbox_id,
    )
    return isinstance(cleanup_authority(facts), Withheld)
