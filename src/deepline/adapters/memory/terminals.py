"""How runs end, in memory: first write wins, and one step holds everything (C20, C21, C32, Q37)."""

from collections.abc import Callable

from deepline.adapters.memory.ending import Ending, end_run
from deepline.adapters.memory.pushes import pushed_state
from deepline.adapters.memory.rows import AttemptRow, RunRow
from deepline.adapters.memory.world import Port, World
from deepline.core.heartbeats import (
    SUSPENDED,
    Accept,
    AlreadyStored,
    Refuse,
    judge_offer,
    judge_suspension,
)
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.heartbeat import HeartbeatFence
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.result import Completed, RunnerTerminal, Suspended
from deepline.core.model.run import RunStatus
from deepline.core.model.why import Why
from deepline.ports.terminals import (
    Cancelled,
    CancelOutcome,
    CommitOutcome,
    Committed,
    NotCancelled,
    NotCommitted,
    OfferAlreadyStored,
    OfferOutcome,
    OfferRefused,
    OfferStored,
    SuspendOutcome,
    SuspensionAlreadyStored,
    SuspensionRefused,
    SuspensionStored,
    TerminalCommit,
    Unstarted,
)


class MemoryTerminals(Port):
    """Runner terminals on attempts, scheduler terminals on runs."""

    async def commit(self, commit: TerminalCommit) -> CommitOutcome:
        """End the run under its fence."""
        return await self._step("terminals.commit", lambda: self._commit(commit))

    def _commit(self, commit: TerminalCommit) -> CommitOutcome:
        world, ref, claim = self.world, commit.ref, commit.claim
        run = world.runs.get(ref.run_id)
        if run is None:
            return NotCommitted(status=None)
        attempt = _fenced(world, commit)
        engine_run = None if claim is None else world.queue.held_by(claim)
        if attempt is None or (claim is not None and engine_run is None):
            return NotCommitted(status=run.status)
        result = commit.result
        if commit.preserve_runner_terminal and attempt.runner_terminal is not None:
            result = attempt.runner_terminal
        end_run(world, run, _ending(commit, result))
        if engine_run is None:
            world.queue.cancel(run.task_id)
        else:
            world.queue.complete(engine_run)
        return Committed(status=run.status, result=result, committed_at=world.now())

    async def offer(
        self, key: AttemptKey, terminal: RunnerTerminal, fence: HeartbeatFence, why: Why
    ) -> OfferOutcome:
        """Store a runner terminal if none is stored and the fence holds, and wake its run."""

        def effect() -> OfferOutcome:
            row = self.world.attempts.get(key)
            match judge_offer(pushed_state(self.world, key), fence):
                case Refuse(code=code, attempt_exists=exists):
                    return OfferRefused(liveness_exists=exists, suspended=code == SUSPENDED)
                case AlreadyStored():
                    return OfferAlreadyStored()
                case Accept():
                    assert row is not None
                    row.runner_terminal, row.runner_terminal_at = terminal, self.world.now()
                    row.updated_at = row.runner_terminal_at
                    self.world.decide(key.run_id, key.attempt, why)
                    self.world.wake_run(self.world.runs[key.run_id])
                    return OfferStored()

        return await self._step("terminals.offer", effect)

    async def suspend(self, key: AttemptKey, suspended: Suspended, why: Why) -> SuspendOutcome:
        """Store the suspension a runner hands in, and wake its run."""

        def effect() -> SuspendOutcome:
            row = self.world.attempts.get(key)
            match judge_suspension(pushed_state(self.world, key), suspended.suspension):
                case Refuse(code=code):
                    return SuspensionRefused(code)
                case AlreadyStored():
                    return SuspensionAlreadyStored()
                case Accept():
                    assert row is not None
                    row.pending, row.updated_at = suspended, self.world.now()
                    self.world.decide(key.run_id, key.attempt, why)
                    self.world.wake_run(self.world.runs[key.run_id])
                    return SuspensionStored()

        return await self._step("terminals.suspend", effect)

    async def stored(self, key: AttemptKey) -> RunnerTerminal | None:
        """Read the runner terminal stored on an attempt."""

        def effect() -> RunnerTerminal | None:
            row = self.world.attempts.get(key)
            return None if row is None else row.runner_terminal

        return await self._step("terminals.stored", effect)

    async def cancel(self, run_id: RunId, *, by: str, reason: str, why: Why) -> CancelOutcome:
        """End the run as cancelled if it has not ended."""
        return await self._step(
            "terminals.cancel",
            lambda: self._cancel(run_id, by=by, reason=reason, why=why, unless=lambda _: False),
        )

    async def cancel_unstarted(
        self, run_id: RunId, condition: Unstarted, *, reason: str, why: Why
    ) -> CancelOutcome:
        """Cancel a run which has no attempt yet, in its first state, on this release and task."""

        def started(run: RunRow) -> bool:
            return (
                run.attempt > 0
                or run.status is not RunStatus.QUEUED
                or run.release_id != condition.release_id
                or run.task_id != condition.task_id
                or (condition.task_over and _has_open_task(self.world, run))
            )

        return await self._step(
            "terminals.cancel_unstarted",
            lambda: self._cancel(run_id, by="scheduler", reason=reason, why=why, unless=started),
        )

    def _cancel(
        self, run_id: RunId, *, by: str, reason: str, why: Why, unless: Callable[[RunRow], bool]
    ) -> CancelOutcome:
        run = self.world.runs.get(run_id)
        if run is None:
            return NotCancelled(status=None)
        if run.ended or unless(run):
            return NotCancelled(status=run.status)
        newest = self.world.newest_attempt(run)
        had_attempt = newest is not None and newest.live
        run.cancel_requested_at, run.cancelled_by = self.world.now(), by
        ending = Ending(
            status=RunStatus.CANCELLED, attempt=run.attempt, why=why, by=by, reason=reason
        )
        end_run(self.world, run, ending)
        self.world.queue.cancel(run.task_id)
        self.world.hint("run_cancelled", run_id)
        return Cancelled(had_attempt=had_attempt)

    async def status(self, run_id: RunId) -> RunStatus | None:
        """Read the run's status."""

        def effect() -> RunStatus | None:
            run = self.world.runs.get(run_id)
            return None if run is None else run.status

        return await self._step("terminals.status", effect)


def _fenced(world: World, commit: TerminalCommit) -> AttemptRow | None:
    """The attempt if it may end its run: the newest, under this lease, and in a state to do so.

    A finaliser may also settle a retired attempt, and so may who found its task to be over:
    nobody else may start the run again.
    """
    ref, claim = commit.ref, commit.claim
    row = world.attempts.get(AttemptKey(ref.run_id, ref.attempt))
    run = world.runs[ref.run_id]
    if row is None or run.ended or run.attempt != ref.attempt or row.lease_token != ref.lease_token:
        return None
    if commit.stranded and _has_open_task(world, run):
        return None
    allowed = {AttemptStatus.RUNNING}
    if commit.from_waiting:
        allowed.add(AttemptStatus.WAITING)
    if commit.stranded or (claim is not None and claim.is_finaliser):
        allowed.add(AttemptStatus.RETIRED)
    return row if row.status in allowed else None


def _has_open_task(world: World, run: RunRow) -> bool:
    task = world.queue.tasks.get(run.task_id or "")
    return task is not None and task.open


def _ending(commit: TerminalCommit, result: RunnerTerminal) -> Ending:
    completed = isinstance(result, Completed)
    return Ending(
        status=RunStatus.COMPLETED if completed else RunStatus.FAILED,
        attempt=commit.ref.attempt,
        why=commit.why,
        result=result,
        settled_progress=commit.settled_progress,
        log_tail=result.report.logs if commit.keep_log_tail else (),
        capture_crash=commit.request_crash_diagnostic,
    )
