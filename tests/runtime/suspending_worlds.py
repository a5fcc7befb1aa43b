"""A small world whose runners live: they read their checkpoint, work, and hand in what a play says.

A runner here is a task that does what one in a sandbox does through the gateway. It dies with its
sandbox.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta

import attrs
import trio

from deepline.adapters.memory.faults import NoFaults
from deepline.adapters.memory.sandbox_provider import Life, Sandbox
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.heartbeat import NoFence
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.result import Report, RunnerResult, Suspended
from deepline.core.model.run import RunStatus
from deepline.core.model.sandbox import Operation
from deepline.core.model.signal import Signal
from deepline.core.model.suspension import EventSuspension, SleepSuspension
from deepline.core.model.why import Why
from deepline.core.parking import RESUMED
from deepline.ports.sandbox_provider import RunnerStart
from tests.runtime.sandbox_worlds import SandboxWorld

WORK_S = 2.0
Play = Callable[["SuspendingWorld", AttemptKey, JsonObject], RunnerResult]


@attrs.define(eq=False)
class SuspendingWorld(SandboxWorld):
    """Runs of one play; `begun` tells, run by run, which answers each runner found."""

    play: Play = attrs.field(kw_only=True)
    nursery: trio.Nursery = attrs.field(kw_only=True)
    unheard: bool = False
    """Runners cannot reach the gateway: what they say stays in their sandboxes."""
    begun: list[tuple[AttemptKey, tuple[str, ...]]] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        """Let each start of a runner begin its life."""
        super().__attrs_post_init__()
        self.provider.life_of = self._begin

    def _begin(self, operation: Operation, start: RunnerStart) -> Life:
        environment = start.environment
        run_id, attempt = environment["DEEPLINE_RUN_ID"], int(environment["DEEPLINE_ATTEMPT"])
        (sandbox,) = [one for one in self.provider.sandboxes.values() if one.operation == operation]
        self.nursery.start_soon(self._live, sandbox, AttemptKey(RunId(run_id), attempt))
        return Life(runs_for=timedelta(seconds=WORK_S + 1), deleting_for=self.life.deleting_for)

    async def _live(self, sandbox: Sandbox, key: AttemptKey) -> None:
        attempt = await self.ports.attempts.read(key)
        assert attempt is not None
        answers = attempt.checkpoint.state.get(RESUMED)
        known: JsonObject = answers if isinstance(answers, Mapping) else {}
        self.begun.append((key, tuple(sorted(known))))
        await self.ports.liveness.beat(key)
        await trio.sleep(WORK_S)
        if sandbox.delete_accepted_at is None:
            result = self.play(self, key, known)
            if self.unheard:
                sandbox.life = attrs.evolve(sandbox.life, exit_code=75, result=result)
            else:
                await self.hand_in(key, result)

    async def hand_in(self, key: AttemptKey, result: RunnerResult) -> object:
        """Push a result as a runner does."""
        why = Why("runner.pushed")
        if isinstance(result, Suspended):
            return await self.ports.terminals.suspend(key, result, why)
        return await self.ports.terminals.offer(key, result, NoFence(), why)

    async def signal(self, run_id: str, event_key: str, payload: JsonObject) -> None:
        """Send the run an event."""
        signal = Signal(event_key=event_key, boundary_id=None, payload=payload)
        await self.ports.signals.put(RunId(run_id), signal, signal_id=None)

    async def until_waiting_for(self, run_id: str, boundary_id: str) -> None:
        """Wait until the run is parked at this point of its play."""
        while True:
            run = self.world.runs[RunId(run_id)]
            newest = self.world.newest_attempt(run)
            waits_for = None if newest is None else newest.suspension
            parked = waits_for is not None and run.status is RunStatus.WAITING
            if parked and getattr(waits_for, "boundary_id", None) == boundary_id:
                return
            await self.clock.sleep(timedelta(milliseconds=100))

    @property
    def sandboxes_held(self) -> int:
        """How many sandboxes nobody has asked to delete."""
        return sum(one.delete_accepted_at is None for one in self.provider.sandboxes.values())

    def answers_begun_with(self) -> list[tuple[str, ...]]:
        """The answers that each runner found, in order of their starts."""
        return [known for _, known in self.begun]

    def sleep(self, key: AttemptKey, boundary_id: str, length: timedelta) -> Suspended:
        """What a play hands in to sleep."""
        return _suspended(
            SleepSuspension(
                boundary_id=boundary_id,
                runner_attempt=key.attempt,
                wake_at=self.clock.now() + length,
            )
        )

    def wait(
        self, key: AttemptKey, boundary_id: str, event_key: str, *, within: timedelta | None = None
    ) -> Suspended:
        """What a play hands in to wait for an event."""
        return _suspended(
            EventSuspension(
                boundary_id=boundary_id,
                runner_attempt=key.attempt,
                event_key=event_key,
                expires_at=None if within is None else self.clock.now() + within,
            )
        )


def _suspended(suspension: SleepSuspension | EventSuspension) -> Suspended:
    state: dict[str, Json] = {"at": suspension.boundary_id}
    return Suspended(suspension=suspension, report=Report(checkpoint=Checkpoint(state=state)))


POLLS = frozenset(
    {"engine.next_due", "engine.extend", "cleanup.claim", "outbox.lease_due", "outbox.lease_run"}
)
"""Operations that come round again and again and change nothing but a lease."""


@attrs.define(eq=False)
class Mortal(NoFaults):
    """Kills its process at the `at`-th operation, before or after it: nothing more is written.

    With `dies_after` it is the first operation of that name.
    """

    at: int
    before_it: bool
    dies_after: str | None = None
    process: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    operations: list[str] = attrs.field(factory=list)
    dead: bool = False

    async def before(self, operation: str) -> None:
        """Count the operation; the dead do nothing more."""
        if not self.dead and operation not in POLLS:
            self.operations.append(operation)
            self.dead = self.before_it and len(self.operations) == self.at
        await self._stay_dead()

    async def after(self, operation: str) -> None:
        """Die with the operation done and its answer unheard."""
        counted_out = operation not in POLLS and len(self.operations) >= self.at
        if counted_out or operation == self.dies_after:
            self.dead = True
        await self._stay_dead()

    def delivers(self, hint: str) -> bool:
        """The dead hear nothing."""
        return not self.dead

    async def _stay_dead(self) -> None:
        if self.dead:
            self.process.cancel()
            await trio.sleep_forever()
