"""One store in memory: all tables, the store's own clock, and steps that are serialisable.

Every port of `adapters.memory` is a thin class over one `World`. A port method passes one
checkpoint and then changes the world in one synchronous step, so any interleaving of tasks is a
serial order of whole operations, which is what the store of record promises. Nothing here reads
real time or makes chance of its own.
"""

import random
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeVar

import attrs
import trio

from deepline.adapters.memory.clock import TrioTimeClock
from deepline.adapters.memory.engine_queue import EngineQueue
from deepline.adapters.memory.faults import NO_FAULTS, Faults
from deepline.adapters.memory.rows import (
    AttemptRow,
    CleanupEventRow,
    CleanupJobRow,
    DutyLeaseRow,
    LaneRow,
    LaunchRow,
    OperationRow,
    OutboxLeaseRow,
    OutboxRow,
    ReceiptRow,
    RunRow,
    SecretRow,
    SheetTable,
    SignalRow,
    UsageRow,
)
from deepline.core.limits import Limits
from deepline.core.model.evidence import DecisionRecord
from deepline.core.model.identity import AttemptKey, AttemptRef, Lane, OrgId, RunId
from deepline.core.model.json_value import JsonObject
from deepline.core.model.lane import LaneWorker
from deepline.core.model.ledger import Fact
from deepline.core.model.why import Why
from deepline.ports.api_keys import ApiKey
from deepline.ports.attempts import PreCodeRecovery
from deepline.ports.clock import Clock
from deepline.ports.crash_diagnostics import CrashDiagnostic
from deepline.ports.engine import Wakeups
from deepline.ports.receipts import StepResult
from deepline.ports.run_events import RunEvent

Answer = TypeVar("Answer")


@attrs.define(eq=False)
class Listener:
    """One process that listens for hints, until its line is lost."""

    wakeups: Wakeups
    faults: Faults
    lost: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False, kw_only=True)
class World:
    """The tables by name, the engine's queue, the clock, and who listens.

    `watch` is called with the operation's name after every step, before anybody else can run;
    a simulation checks its invariants there.
    """

    clock: Clock = attrs.field(factory=TrioTimeClock)
    chance: random.Random = attrs.field(factory=lambda: random.Random(0))  # noqa: S311
    limits: Limits = attrs.field(factory=Limits)
    watch: Callable[[str], None] | None = None

    lanes: dict[Lane, LaneRow] = attrs.field(factory=dict)
    lane_workers: dict[tuple[Lane, str], LaneWorker] = attrs.field(factory=dict)
    bundles: dict[tuple[OrgId, str], bytes] = attrs.field(factory=dict)
    launches: dict[RunId, LaunchRow] = attrs.field(factory=dict)
    runs: dict[RunId, RunRow] = attrs.field(factory=dict)
    retries: dict[RunId, list[RunId]] = attrs.field(factory=dict)
    held_back: dict[Lane, dict[OrgId, dict[RunId, None]]] = attrs.field(factory=dict)
    in_flight: dict[tuple[Lane, OrgId], int] = attrs.field(factory=dict)
    attempts: dict[AttemptKey, AttemptRow] = attrs.field(factory=dict)
    decisions: dict[RunId, list[DecisionRecord]] = attrs.field(factory=dict)
    outbox: dict[RunId, list[OutboxRow]] = attrs.field(factory=dict)
    undelivered: dict[RunId, None] = attrs.field(factory=dict)
    fact_ids: set[str] = attrs.field(factory=set)
    outbox_leases: dict[RunId, OutboxLeaseRow] = attrs.field(factory=dict)
    run_events: dict[RunId, dict[str, RunEvent]] = attrs.field(factory=dict)
    signals: dict[RunId, list[SignalRow]] = attrs.field(factory=dict)
    sheets: dict[RunId, dict[str, SheetTable]] = attrs.field(factory=dict)
    steps: dict[RunId, dict[str, StepResult]] = attrs.field(factory=dict)
    receipts: dict[RunId, dict[str, ReceiptRow]] = attrs.field(factory=dict)
    operations: dict[str, OperationRow] = attrs.field(factory=dict)
    operations_of_run: dict[RunId, list[OperationRow]] = attrs.field(factory=dict)
    cleanup_jobs: dict[str, CleanupJobRow] = attrs.field(factory=dict)
    open_cleanup: dict[str, CleanupJobRow] = attrs.field(factory=dict)
    cleanup_events: dict[RunId, list[CleanupEventRow]] = attrs.field(factory=dict)
    crash_diagnostics: dict[AttemptKey, CrashDiagnostic] = attrs.field(factory=dict)
    usage: dict[RunId, list[UsageRow]] = attrs.field(factory=dict)
    recoveries: dict[tuple[RunId, str], PreCodeRecovery] = attrs.field(factory=dict)
    api_keys: dict[str, ApiKey] = attrs.field(factory=dict)
    duty_leases: dict[str, DutyLeaseRow] = attrs.field(factory=dict)
    secrets: dict[OrgId, dict[str, SecretRow]] = attrs.field(factory=dict)
    queue: EngineQueue = attrs.field(init=False)

    mark: str = "st-memory"

    _listeners: list[Listener] = attrs.field(factory=list)
    _hints: list[tuple[str, str]] = attrs.field(factory=list)
    _now: datetime | None = None
    _ids: int = 0

    def __attrs_post_init__(self) -> None:
        self.queue = EngineQueue(self.limits)

    def now(self) -> datetime:
        """The store's own time, the only one that durable comparisons use (Q50).

        It stands still within a step.
        """
        return self._now or self.clock.now()

    def new_id(self) -> str:
        """A short id that grows."""
        self._ids += 1
        return str(self._ids)

    def new_secret(self) -> str:
        """A secret of 128 bits from the world's own chance."""
        return f"{self.chance.getrandbits(128):032x}"

    def run_step(self, operation: str, effect: Callable[[], Answer]) -> Answer:
        """Make one step whole: its effect, then the hints it earned, then the watch.

        An effect that raises must have changed nothing; its hints are dropped with it.
        """
        self._now = self.clock.now()
        try:
            answer = effect()
            self._deliver()
        finally:
            self._now = None
            self._hints.clear()
        if self.watch is not None:
            self.watch(operation)
        return answer

    def hint(self, name: str, subject: str = "") -> None:
        """Earn a hint, delivered when the step is done; `name` is a field of `Wakeups`."""
        if self._listeners and (name, subject) not in self._hints:
            self._hints.append((name, subject))

    def _deliver(self) -> None:
        for name, subject in self._hints:
            for listener in tuple(self._listeners):
                if listener.faults.delivers(name):
                    getattr(listener.wakeups, name)(subject)

    def listen(self, wakeups: Wakeups, faults: Faults) -> Listener:
        """Add a listener and tell it to look for itself once."""
        listener = Listener(wakeups, faults)
        self._listeners.append(listener)
        wakeups.rescan()
        return listener

    def forget(self, listener: Listener) -> None:
        """Remove a listener."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def drop_listeners(self) -> None:
        """Lose every line at once, as a restart of the store does."""
        for listener in self._listeners:
            listener.lost.set()
        self._listeners.clear()

    def attempt_of(self, ref: AttemptRef) -> AttemptRow | None:
        """The row while the fence holds: newest, live, this token, run not ended (C12)."""
        row = self.live_attempt(AttemptKey(ref.run_id, ref.attempt))
        return row if row is not None and row.lease_token == ref.lease_token else None

    def live_attempt(self, key: AttemptKey) -> AttemptRow | None:
        """The attempt's row while it is the newest of a run that has not ended, and live."""
        run = self.runs.get(key.run_id)
        row = self.attempts.get(key)
        if run is None or row is None or run.ended or run.attempt != key.attempt or not row.live:
            return None
        return row

    def newest_attempt(self, run: RunRow) -> AttemptRow | None:
        """The run's newest attempt, live or not."""
        return self.attempts.get(AttemptKey(run.run_id, run.attempt))

    def attempts_of_run(self, run: RunRow) -> Iterator[AttemptRow]:
        """All attempts of a run, oldest first."""
        for attempt in range(1, run.attempt + 1):
            yield self.attempts[AttemptKey(run.run_id, attempt)]

    def decide(self, run_id: RunId, attempt: int, why: Why, *, repeats: bool = False) -> None:
        """Write a decision down with the change it belongs to.

        One that `repeats` replaces the newest if the same rule fired, so that a run which waits
        for hours keeps one record and not thousands.
        """
        records = self.decisions.setdefault(run_id, [])
        if repeats and records and _alike(records[-1], attempt, why):
            records.pop()
        records.append(DecisionRecord(at=self.now(), attempt=attempt, why=why))

    def append_fact(self, run_id: RunId, event_id: str, kind: str, payload: JsonObject) -> None:
        """Append a fact to the run's outbox; an event id that is there already adds nothing."""
        if event_id in self.fact_ids:
            return
        self.fact_ids.add(event_id)
        rows = self.outbox.setdefault(run_id, [])
        now = self.now()
        fact = Fact(
            run_id=run_id,
            seq=len(rows) + 1,
            event_id=event_id,
            kind=kind,
            payload=payload,
            occurred_at=now,
        )
        rows.append(OutboxRow(fact=fact, due_at=now))
        self.undelivered[run_id] = None

    def wake_run(self, run: RunRow) -> None:
        """Make the run's engine run due now if it sleeps, and say so (L12)."""
        if self.queue.wake(run.task_id, self.now()):
            self.hint("lane_woken", run.lane)


def _alike(record: DecisionRecord, attempt: int, why: Why) -> bool:
    return (record.attempt, record.why.rule) == (attempt, why.rule)


@attrs.define(eq=False)
class Port:
    """What every port over a world has: the world, and this process's faults."""

    world: World
    faults: Faults = NO_FAULTS

    async def _step(self, operation: str, effect: Callable[[], Answer]) -> Answer:
        """Pass one checkpoint, then make the step; a cancelled operation happened whole or not."""
        await trio.lowlevel.checkpoint()
        await self.faults.before(operation)
        answer = self.world.run_step(operation, effect)
        await self.faults.after(operation)
        return answer
