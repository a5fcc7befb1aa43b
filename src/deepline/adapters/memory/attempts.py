"""Claiming and moving attempts in memory, every write fenced (C12, C17, C29, C54)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from deepline.adapters.memory.engine_queue import EngineRun
from deepline.adapters.memory.fair_admission import admit
from deepline.adapters.memory.obligations import (
    oblige_attempt,
    oblige_late,
    operation_of,
    record_sandbox,
)
from deepline.adapters.memory.preparing import attempt_value, prepare, retire_attempt
from deepline.adapters.memory.rows import AttemptRow
from deepline.adapters.memory.signals import has_signal_for
from deepline.adapters.memory.world import Port
from deepline.core import token_outage
from deepline.core.model.attempt import Attempt, AttemptStatus, RetireReason
from deepline.core.model.checkpoint import Checkpoint, SilenceWatch
from deepline.core.model.claim import Claim, Prepared
from deepline.core.model.identity import AttemptKey, AttemptRef, RunId
from deepline.core.model.run import RunStatus
from deepline.core.model.sandbox import SandboxRef
from deepline.core.model.suspension import DetachedSuspension, EventSuspension, Suspension
from deepline.core.model.why import Why
from deepline.ports.attempts import (
    ClaimRequest,
    LostFence,
    OutageExhausted,
    OutageOutcome,
    Parked,
    ParkOutcome,
    PreCodeRecovery,
    Retired,
    RetireOutcome,
)
from deepline.ports.errors import FenceLost, NotFound


class MemoryAttempts(Port):
    """The attempt's row, its run row and its engine run, changed in one step."""

    async def claim(self, request: ClaimRequest) -> Sequence[Prepared]:
        """Admit fairly, claim up to `quantity` engine runs and prepare each."""
        return await self._step("attempts.claim", lambda: self._claim(request))

    def _claim(self, request: ClaimRequest) -> Sequence[Prepared]:
        world, lane = self.world, request.lane
        if lane not in world.lanes:
            raise NotFound(f"lane {lane} is not ready; make it ready with ensure_lane first")
        now = world.now()
        world.lanes[lane].last_claim_at = now
        world.lanes[lane].org_limit = request.org_limit
        admit(world, lane, quantity=request.quantity, org_limit=request.org_limit)
        taken = world.queue.claim(lane, request.owner, request.lease, request.quantity, now)
        keys, worker = request.placement_keys, request.worker
        return [
            prepare(world, _claim_of(run, request.owner, now), placement_keys=keys, worker=worker)
            for run in taken
        ]

    async def prepare(
        self, claim: Claim, *, placement_keys: Sequence[str], worker: str
    ) -> Prepared:
        """Prepare the run of a claim in hand once more."""

        def effect() -> Prepared:
            if self.world.queue.held_by(claim) is None:
                raise FenceLost(f"the claim of run {claim.run_id} is lost")
            return prepare(self.world, claim, placement_keys=placement_keys, worker=worker)

        return await self._step("attempts.prepare", effect)

    async def read(self, key: AttemptKey) -> Attempt | None:
        """Read one attempt as it stands."""

        def effect() -> Attempt | None:
            row = self.world.attempts.get(key)
            return None if row is None else attempt_value(row)

        return await self._step("attempts.read", effect)

    async def bind_sandbox(
        self,
        ref: AttemptRef,
        sandbox: SandboxRef,
        suspension: DetachedSuspension,
        *,
        operation_key: str,
        why: Why | None = None,
    ) -> bool:
        """Record the sandbox and the runner about to be started on it, under the fence."""

        def effect() -> bool:
            operation = operation_of(self.world, ref, sandbox, operation_key)
            record_sandbox(self.world, operation, sandbox)
            row = self._running(ref)
            if row is None:
                oblige_late(self.world, operation)
                return False
            if why is not None and row.suspension is None:
                self.world.decide(ref.run_id, ref.attempt, why)
            row.suspension, row.updated_at = suspension, self.world.now()
            for waited in [key for key in self.world.recoveries if key[0] == ref.run_id]:
                del self.world.recoveries[waited]
            return True

        return await self._step("attempts.bind_sandbox", effect)

    async def park(
        self,
        ref: AttemptRef,
        claim: Claim,
        suspension: Suspension,
        *,
        until: datetime,
        checkpoint: Checkpoint,
        silence: SilenceWatch | None,
        why: Why,
    ) -> ParkOutcome:
        """Mark the attempt waiting and put its engine run to sleep, in one step."""

        def effect() -> ParkOutcome:
            row, engine_run = self.world.attempt_of(ref), self.world.queue.held_by(claim)
            if row is None or engine_run is None:
                return LostFence()
            row.status, row.updated_at = AttemptStatus.WAITING, self.world.now()
            row.suspension, row.checkpoint, row.silence = suspension, checkpoint, silence
            row.claim_owner, row.adopted = None, False
            self.world.runs[ref.run_id].status = RunStatus.WAITING
            if not isinstance(suspension, DetachedSuspension):
                row.pending = None
                oblige_attempt(self.world, row)
            self.world.decide(ref.run_id, ref.attempt, why, repeats=True)
            wake_at = self.world.now() if self._is_over(row) else until
            self._sleep(engine_run, wake_at)
            return Parked(wake_at)

        return await self._step("attempts.park", effect)

    def _is_over(self, row: AttemptRow) -> bool:
        """Has what the attempt waits for come already?"""
        if row.runner_terminal is not None or row.pending is not None:
            return True
        if row.silence is not None and row.silence.heartbeat != row.heartbeat:
            return True
        waiting_for = row.suspension
        if not isinstance(waiting_for, EventSuspension):
            return False
        event_key, boundary_id = waiting_for.event_key, waiting_for.boundary_id
        return has_signal_for(self.world, row.run_id, event_key, boundary_id)

    def _sleep(self, engine_run: EngineRun, until: datetime) -> None:
        self.world.queue.sleep(engine_run, until)
        if until <= self.world.now():
            self.world.hint("lane_woken", engine_run.task.lane)

    async def resume(self, ref: AttemptRef, claim: Claim, checkpoint: Checkpoint) -> bool:
        """Take a waiting attempt back to running under its own fence, with its checkpoint."""

        def effect() -> bool:
            row = self.world.attempt_of(ref)
            if row is None or self.world.queue.held_by(claim) is None:
                return False
            if row.status is not AttemptStatus.WAITING:
                return False
            row.status, row.updated_at = AttemptStatus.RUNNING, self.world.now()
            row.claim_owner, row.silence, row.checkpoint = claim.owner, None, checkpoint
            self.world.runs[ref.run_id].status = RunStatus.RUNNING
            return True

        return await self._step("attempts.resume", effect)

    async def defer(self, claim: Claim, delay: timedelta, why: Why) -> bool:
        """Let the engine run sleep for `delay` and write nothing else."""

        def effect() -> bool:
            engine_run = self.world.queue.held_by(claim)
            if engine_run is None:
                return False
            run = self.world.runs.get(claim.run_id)
            if run is not None:
                self.world.decide(run.run_id, run.attempt, why, repeats=True)
            self._sleep(engine_run, self.world.now() + delay)
            return True

        return await self._step("attempts.defer", effect)

    async def retire(
        self,
        ref: AttemptRef,
        claim: Claim,
        reason: RetireReason,
        *,
        delay: timedelta,
        why: Why,
        dependency: str | None = None,
    ) -> RetireOutcome:
        """Give a fresh attempt up and queue its run again, with its cleanup obligation."""

        def effect() -> RetireOutcome:
            row, engine_run = self._running(ref), self.world.queue.held_by(claim)
            if row is None or engine_run is None:
                return LostFence()
            retire_attempt(self.world, row, reason, why)
            if dependency is not None:
                self._count_recovery(ref.run_id, dependency)
            self._sleep(engine_run, self.world.now() + delay)
            return Retired(None)

        return await self._step("attempts.retire", effect)

    async def retire_for_outage(
        self, ref: AttemptRef, claim: Claim, *, bound: timedelta, delay: timedelta, why: Why
    ) -> OutageOutcome:
        """Give a fresh attempt up while its token outage is within `bound`."""

        def effect() -> OutageOutcome:
            row, engine_run = self._running(ref), self.world.queue.held_by(claim)
            if row is None or engine_run is None:
                return LostFence()
            now = self.world.now()
            decision = token_outage.outage_of_fresh_attempt(
                now, row.outage_started_at, longest=bound, delay=delay
            )
            if isinstance(decision, token_outage.OutageExhausted):
                return OutageExhausted(decision.outage_started_at or now)
            started_at, reason = decision.outage_started_at, RetireReason.TOKEN_OUTAGE
            retire_attempt(self.world, row, reason, why, outage_started_at=started_at)
            self._sleep(engine_run, now + decision.delay)
            return Retired(started_at)

        return await self._step("attempts.retire_for_outage", effect)

    def _count_recovery(self, run_id: RunId, dependency: str) -> None:
        waited = self.world.recoveries.get((run_id, dependency))
        first_failed_at = self.world.now() if waited is None else waited.first_failed_at
        deferrals = 1 if waited is None else waited.deferrals + 1
        self.world.recoveries[run_id, dependency] = PreCodeRecovery(first_failed_at, deferrals)

    async def recovery(self, key: AttemptKey, dependency: str) -> PreCodeRecovery | None:
        """Read how long and how often this run has waited for a dependency."""
        return await self._step(
            "attempts.recovery", lambda: self.world.recoveries.get((key.run_id, dependency))
        )

    async def fail(self, ref: AttemptRef, claim: Claim, why: Why, *, reason: str) -> bool:
        """Spend the engine attempt and, if the attempt is live and fresh, retire it."""

        def effect() -> bool:
            engine_run = self.world.queue.held_by(claim)
            if engine_run is None:
                return False
            row = self._running(ref)
            if row is not None and not row.may_have_started:
                retire_attempt(self.world, row, RetireReason.FAILED, why)
            else:
                self.world.decide(ref.run_id, ref.attempt, why)
            self.world.queue.fail(engine_run, reason, self.world.now())
            self.world.hint("lane_woken", claim.lane)
            return True

        return await self._step("attempts.fail", effect)

    def _running(self, ref: AttemptRef) -> AttemptRow | None:
        row = self.world.attempt_of(ref)
        return row if row is not None and row.status is AttemptStatus.RUNNING else None

    async def token_obtained(self, ref: AttemptRef) -> None:
        """Break the outage chain of this attempt."""

        def effect() -> None:
            row = self.world.attempt_of(ref)
            if row is not None:
                row.outage_started_at = None
                self.world.runs[ref.run_id].outage_started_at = None

        await self._step("attempts.token_obtained", effect)

    async def is_live(self, ref: AttemptRef) -> bool:
        """Is this exact attempt, under this lease token, running or waiting?"""
        return await self._step("attempts.is_live", lambda: self.world.attempt_of(ref) is not None)

    async def key_is_live(self, key: AttemptKey) -> bool:
        """Is this attempt running or waiting?"""
        return await self._step(
            "attempts.key_is_live", lambda: self.world.live_attempt(key) is not None
        )


def _claim_of(run: EngineRun, owner: str, now: datetime) -> Claim:
    task = run.task
    return Claim(
        run_id=task.run_id,
        lane=task.lane,
        task_id=task.task_id,
        engine_run_id=run.engine_run_id,
        owner=owner,
        engine_attempt=run.attempt,
        max_engine_attempts=task.max_engine_attempts,
        claimed_at=now,
    )
