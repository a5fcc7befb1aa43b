"""The queue under the runs, with the engine's own attempts, leases and due times (ENGINE 2).

A task has at most one engine run that is not over. Parking and deferring keep the engine run and
its attempt; a failure or an expired lease ends it and adds one with the next attempt. Due times
and leases are kept in heaps whose stale entries are dropped when they come up.
"""

import heapq
from datetime import datetime, timedelta

import attrs

from deepline.core.limits import Limits
from deepline.core.model.claim import Claim
from deepline.core.model.identity import Lane, RunId

_CLAIMABLE = ("pending", "sleeping")


@attrs.define(kw_only=True, eq=False)
class EngineTask:
    """The engine's task of a run; `state` is the engine's own word."""

    task_id: str
    lane: Lane
    run_id: RunId
    max_attempts: int
    max_engine_attempts: int
    state: str = "pending"
    current: "EngineRun" = attrs.field(init=False)

    @property
    def open(self) -> bool:
        """True until completed, failed or cancelled."""
        return self.state in ("pending", "sleeping", "running")


@attrs.define(kw_only=True, eq=False)
class EngineRun:
    """One engine attempt. `available_at` is `None` while the run is held back until admitted."""

    engine_run_id: str
    task: EngineTask
    attempt: int
    state: str
    available_at: datetime | None
    claimed_by: str | None = None
    claim_expires_at: datetime | None = None
    failure: str | None = None


@attrs.define(eq=False)
class _LaneQueue:
    due: list[tuple[datetime, str]] = attrs.field(factory=list)
    leases: list[tuple[datetime, str]] = attrs.field(factory=list)
    open_tasks: int = 0


@attrs.define(eq=False)
class EngineQueue:
    """All lanes' tasks. Every method is one synchronous part of a step of the world."""

    limits: Limits
    tasks: dict[str, EngineTask] = attrs.field(factory=dict)
    runs: dict[str, EngineRun] = attrs.field(factory=dict)
    _lanes: dict[Lane, _LaneQueue] = attrs.field(factory=dict)
    _ids: int = 0

    def _new_id(self) -> str:
        """Ids look like the engine's and grow with time, as its own do."""
        self._ids += 1
        return f"{self._ids:08x}-0000-7000-8000-000000000000"

    def add_lane(self, lane: Lane) -> None:
        """Make the lane's queue; idempotent."""
        self._lanes.setdefault(lane, _LaneQueue())

    def drop_lane(self, lane: Lane) -> None:
        """Take the lane's queue away; the caller knows that it is empty."""
        self._lanes.pop(lane, None)

    def has_lane(self, lane: Lane) -> bool:
        """Was the lane made ready?"""
        return lane in self._lanes

    def open_tasks(self, lane: Lane) -> int:
        """How many tasks of the lane are not over."""
        return self._lanes[lane].open_tasks

    def spawn_held(self, lane: Lane, run_id: RunId, *, engine: int, finaliser: int) -> EngineTask:
        """Add a task whose first engine run is held back until it is released."""
        task = EngineTask(
            task_id=self._new_id(),
            lane=lane,
            run_id=run_id,
            max_attempts=engine + finaliser,
            max_engine_attempts=engine,
        )
        self.tasks[task.task_id] = task
        self._lanes[lane].open_tasks += 1
        self._add_run(task, attempt=1, state="pending", available_at=None)
        return task

    def _add_run(
        self, task: EngineTask, *, attempt: int, state: str, available_at: datetime | None
    ) -> None:
        run = EngineRun(
            engine_run_id=self._new_id(),
            task=task,
            attempt=attempt,
            state=state,
            available_at=available_at,
        )
        self.runs[run.engine_run_id] = run
        task.current, task.state = run, state
        self._push_due(run)

    def _push_due(self, run: EngineRun) -> None:
        if run.available_at is not None:
            queue = self._lanes[run.task.lane]
            heapq.heappush(queue.due, (run.available_at, run.engine_run_id))

    def _push_lease(self, run: EngineRun) -> None:
        if run.claim_expires_at is not None:
            queue = self._lanes[run.task.lane]
            heapq.heappush(queue.leases, (run.claim_expires_at, run.engine_run_id))

    def _first_due(self, queue: _LaneQueue) -> EngineRun | None:
        while queue.due:
            at, engine_run_id = queue.due[0]
            run = self.runs[engine_run_id]
            if run.state in _CLAIMABLE and run.available_at == at:
                return run
            heapq.heappop(queue.due)
        return None

    def _first_lease(self, queue: _LaneQueue) -> EngineRun | None:
        while queue.leases:
            at, engine_run_id = queue.leases[0]
            run = self.runs[engine_run_id]
            if run.state == "running" and run.claim_expires_at == at:
                return run
            heapq.heappop(queue.leases)
        return None

    def due_count(self, lane: Lane, now: datetime, *, at_most: int) -> int:
        """How many engine runs could be claimed now, counted up to `at_most`."""
        queue = self._lanes[lane]
        seen: dict[str, tuple[datetime, str]] = {}
        while len(seen) < at_most and (run := self._first_due(queue)) is not None:
            if run.available_at is None or run.available_at > now:
                break
            seen[run.engine_run_id] = heapq.heappop(queue.due)
        for entry in seen.values():
            heapq.heappush(queue.due, entry)
        return len(seen)

    def claim(
        self, lane: Lane, owner: str, lease: timedelta, quantity: int, now: datetime
    ) -> list[EngineRun]:
        """Sweep up to `quantity` expired leases, then take up to `quantity` due engine runs."""
        queue = self._lanes[lane]
        self._sweep(queue, quantity, now)
        taken: list[EngineRun] = []
        while len(taken) < quantity:
            run = self._first_due(queue)
            if run is None or run.available_at is None or run.available_at > now:
                break
            heapq.heappop(queue.due)
            run.state = run.task.state = "running"
            run.claimed_by, run.claim_expires_at = owner, now + lease
            run.available_at = now
            self._push_lease(run)
            taken.append(run)
        return taken

    def _sweep(self, queue: _LaneQueue, quantity: int, now: datetime) -> None:
        for _ in range(quantity):
            run = self._first_lease(queue)
            if run is None or run.claim_expires_at is None or run.claim_expires_at > now:
                return
            self.fail(run, "claim lost", now)

    def held_by(self, claim: Claim) -> EngineRun | None:
        """The engine run of the claim while it still is that claim's, else `None` (ENGINE 2)."""
        run = self.runs.get(claim.engine_run_id)
        if run is None or run.state != "running" or run.claimed_by != claim.owner:
            return None
        return run

    def extend(self, run: EngineRun, lease: timedelta, now: datetime) -> None:
        """Give the claim another whole lease from now."""
        run.claim_expires_at = now + lease
        self._push_lease(run)

    def sleep(self, run: EngineRun, until: datetime) -> None:
        """Give the claim back and be due at `until`; spends no attempt."""
        run.state = run.task.state = "sleeping"
        run.claimed_by = run.claim_expires_at = None
        run.available_at = until
        self._push_due(run)

    def make_due(self, run: EngineRun, now: datetime) -> bool:
        """Let a waiting engine run be claimed now; False if it is claimed, over or due."""
        if run.state not in _CLAIMABLE:
            return False
        if run.available_at is not None and run.available_at <= now:
            return False
        run.available_at = now
        self._push_due(run)
        return True

    def wake(self, task_id: str | None, now: datetime) -> bool:
        """Let an admitted task that sleeps be claimed now; a held one stays held."""
        task = self.tasks.get(task_id or "")
        if task is None or task.current.available_at is None:
            return False
        return self.make_due(task.current, now)

    def fail(self, run: EngineRun, reason: str, now: datetime) -> None:
        """End this engine attempt; the next one follows after its backoff, while any is left."""
        task = run.task
        run.state, run.failure = "failed", reason
        if run.attempt >= task.max_attempts:
            self._end(task, "failed")
            return
        delay = self._backoff(run.attempt)
        state = "sleeping" if delay else "pending"
        self._add_run(task, attempt=run.attempt + 1, state=state, available_at=now + delay)

    def _backoff(self, attempt: int) -> timedelta:
        grown = self.limits.retry_base * self.limits.retry_factor ** min(attempt - 1, 32)
        return min(grown, self.limits.retry_max)

    def complete(self, run: EngineRun) -> None:
        """The task is handled."""
        run.state = "completed"
        self._end(run.task, "completed")

    def cancel(self, task_id: str | None) -> None:
        """End the task whoever holds it; a task that is over or unknown stays as it is (Q28)."""
        task = self.tasks.get(task_id or "")
        if task is None or not task.open:
            return
        task.current.state = "cancelled"
        task.current.claimed_by = task.current.claim_expires_at = None
        self._end(task, "cancelled")

    def _end(self, task: EngineTask, state: str) -> None:
        task.state = state
        self._lanes[task.lane].open_tasks -= 1

    def next_event(self, lane: Lane) -> datetime | None:
        """When the lane's next engine run is due or its next lease ends."""
        queue = self._lanes[lane]
        instants = []
        if (due := self._first_due(queue)) is not None and due.available_at is not None:
            instants.append(due.available_at)
        if (lease := self._first_lease(queue)) is not None and lease.claim_expires_at is not None:
            instants.append(lease.claim_expires_at)
        return min(instants, default=None)
