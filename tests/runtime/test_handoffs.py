"""A worker that cannot let go of its runner, and wakes without a token (C18, C19.3, A4, A31)."""

from datetime import datetime, timedelta
from itertools import pairwise

import attrs
import trio
import trio.testing

from deepline.adapters.memory.faults import NoFaults
from deepline.adapters.memory.ports import open_ports
from deepline.adapters.memory.rows import AttemptRow
from deepline.adapters.memory.telemetry import RecordedEvent
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.result import Failed
from deepline.core.model.run import Run, RunStatus
from deepline.core.model.suspension import DetachedSuspension
from deepline.ports.errors import ExecutorTokenUnavailable, Unavailable
from deepline.runtime.stop import Stop
from tests.runtime.faulty import Struck, times
from tests.runtime.sandbox_worlds import SandboxWorld
from tests.runtime.suspending_worlds import Mortal

RUN = RunId("r1")
CEILING = timedelta(minutes=20)
AWAY = Unavailable("away")
NO_TOKEN = ExecutorTokenUnavailable("down", 503)


@attrs.define(eq=False)
class Deferrals(NoFaults):
    """Notes, at each deferral, how long it is and what the attempt's row holds around it."""

    world: SandboxWorld
    at: list[float] = attrs.field(factory=list)
    rows: list[dict[str, object]] = attrs.field(factory=list)

    async def before(self, operation: str) -> None:
        """Look before."""
        self._look(operation)

    async def after(self, operation: str) -> None:
        """Look after."""
        if operation == "attempts.defer":
            self.at.append(trio.current_time())
        self._look(operation)

    def _look(self, operation: str) -> None:
        if operation == "attempts.defer":
            row: AttemptRow = self.world.world.attempts[AttemptKey(RUN, 1)]
            self.rows.append(attrs.asdict(row, recurse=False))


def started_at(world: SandboxWorld) -> datetime:
    """When the detached runner was bound."""
    suspension = world.world.attempts[AttemptKey(RUN, 1)].suspension
    assert isinstance(suspension, DetachedSuspension)
    return suspension.started_at


async def test_a_failed_start_is_tried_again_and_nothing_is_taken_away(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Whoever cannot start a bound runner comes back after a second; no cleanup is owed (I14)."""
    world, stop = SandboxWorld(), Stop()
    world.provider.faults = faults = Struck("local.start", times(3, AWAY))
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        while not faults.met:
            await trio.sleep(0.01)
        began = trio.current_time()
        await world.until_started()
        took_s = trio.current_time() - began
        assert not world.world.cleanup_jobs
        await world.push("r1")
        (run,) = await world.until_ended("r1")
        stop.request()

    assert faults.spent
    assert 2.9 < took_s < 4
    assert (run.status, run.attempt) == (RunStatus.COMPLETED, 1)
    assert world.world.queue.tasks[run.task_id or ""].current.attempt == 1
    assert len(world.provider.sandboxes) == 1
    withheld = [one for one in world.telemetry.events if one.name == "cleanup_withheld"]
    assert [one.fields["cleanupAuthorized"] for one in withheld] == [False] * 3


@attrs.define(eq=False)
class Deaf(NoFaults):
    """The first start is never answered."""

    hung: int = 0

    async def before(self, operation: str) -> None:
        """Hang once."""
        if operation == "local.start" and not self.hung:
            self.hung += 1
            await trio.sleep_forever()


async def test_a_start_that_is_never_answered_is_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A provider that does not answer a start holds no worker for as long as a play may take."""
    world, stop = SandboxWorld(), Stop()
    world.provider.faults = faults = Deaf()
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        with trio.fail_after(world.limits.provisioning.total_seconds() + 5):
            await world.until_started()
        await world.push("r1")
        (run,) = await world.until_ended("r1")
        stop.request()

    assert faults.hung == 1
    assert (run.status, run.attempt) == (RunStatus.COMPLETED, 1)


async def bound_and_left(world: SandboxWorld) -> None:
    """Bring a run to where its sandbox is bound, and kill its worker before it starts anything."""
    await world.submit("r1", ceiling=CEILING)
    mortal = Mortal(at=10_000, before_it=False, dies_after="attempts.bind_sandbox")
    with mortal.process:
        worker = world.sandbox_worker("dead", ports=open_ports(world.world, mortal))
        await worker.serve(Stop())
    assert mortal.dead


async def without_token(
    world: SandboxWorld, faults: NoFaults, *, push_after: timedelta | None = None
) -> Run:
    """Let a worker that gets no token wake the run, until it has ended and left nothing."""
    world.tokens.script.extend(times(100_000, NO_TOKEN))
    stop = Stop()
    async with trio.open_nursery() as nursery:
        worker = world.sandbox_worker("w2", ports=open_ports(world.world, faults))
        await nursery.start(worker.serve, stop)
        if push_after is not None:
            await world.clock.sleep(push_after)
            await world.push("r1")
        (run,) = await world.until_ended("r1")
        await world.until_clean()
        stop.request()
    return run


async def test_a_wake_without_a_token_waits_for_the_ceiling(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It is put off by seconds until the ceiling, then ends its run; no ten minutes apply (C18).

    A deferral leaves the attempt's row as it was (I17).
    """
    world = SandboxWorld()
    await bound_and_left(world)
    deferrals = Deferrals(world)
    ceiling_at = started_at(world) + CEILING

    run = await without_token(world, deferrals)

    outcome = await world.ports.runs.read(RUN, None)
    assert outcome is not None
    assert isinstance(outcome.result, Failed)
    assert (run.status, run.attempt) == (RunStatus.FAILED, 1)
    assert run.why is not None
    assert run.why.rule == "arbitration.ceiling"
    assert run.terminal_at is not None
    assert timedelta(0) <= run.terminal_at - ceiling_at <= timedelta(seconds=1)
    gaps = [later - before for before, later in pairwise(deferrals.at)]
    assert len(gaps) > 200
    assert max(gaps) < 5.1
    assert all(event.fields["detachedRecovery"] for event in deferred(world))
    assert len(deferred(world)) == len(deferrals.at)
    assert deferrals.rows[0::2] == deferrals.rows[1::2]


async def test_a_result_pushed_in_the_outage_is_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Settling what the runner stored needs no token, so the outage does not matter (I03)."""
    world = SandboxWorld()
    await bound_and_left(world)

    run = await without_token(world, NoFaults(), push_after=timedelta(minutes=3))

    assert (run.status, run.attempt) == (RunStatus.COMPLETED, 1)
    assert run.why is not None
    assert run.why.rule == "arbitration.pushed_terminal"


def deferred(world: SandboxWorld) -> list[RecordedEvent]:
    """What was said of the outage."""
    name = "executor_token_outage_deferred"
    return [event for event in world.telemetry.events if event.name == name]
