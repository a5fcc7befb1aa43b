"""A wake that meets a store that is away waits, at no cost and not for ever (C15, C19, I15)."""

from datetime import timedelta
from functools import partial

import pytest
import trio
import trio.testing

from deepline.adapters.memory.ports import open_ports
from deepline.core.model.identity import RunId
from deepline.core.model.result import Completed
from deepline.core.model.run import Run, RunStatus
from deepline.ports.errors import OutcomeUnknown, PortError, Unavailable
from deepline.runtime.stop import Stop
from tests.runtime.faulty import Struck, times
from tests.runtime.sandbox_worlds import SandboxWorld
from tests.runtime.suspending_worlds import SuspendingWorld
from tests.runtime.test_suspension import waiting

AWAY = Unavailable("the database is away")
UNHEARD = OutcomeUnknown("no answer")
CEILING = timedelta(minutes=10)


def spent(world: SandboxWorld, run: Run) -> int:
    """How many engine attempts the run has used, the one in hand included."""
    return world.world.queue.tasks[run.task_id or ""].current.attempt


def deferrals(world: SandboxWorld) -> list[object]:
    """The deadlines told of, one each time a wake was put off."""
    told = [one for one in world.telemetry.events if one.name == "wake_deferred"]
    assert all(one.fields["reason"] in {str(AWAY), str(UNHEARD)} for one in told)
    return [one.fields["deadlineMs"] for one in told]


async def silent_until_ended(world: SandboxWorld, faults: Struck) -> Run:
    """Let a runner start, never beat and never be proven gone, until its run ends."""
    await world.submit("r1", ceiling=CEILING)
    stop = Stop()
    async with trio.open_nursery() as nursery:
        worker = world.sandbox_worker(ports=open_ports(world.world, faults))
        await nursery.start(worker.serve, stop)
        (run,) = await world.until_ended("r1")
        stop.request()
    return run


@pytest.mark.parametrize(
    "faulty",
    [
        pytest.param(partial(Struck, before_it=times(40, AWAY)), id="away"),
        pytest.param(partial(Struck, after_it=times(40, UNHEARD)), id="unheard"),
    ],
)
async def test_a_look_that_cannot_read_costs_nothing(
    autojump_clock: trio.testing.MockClock, faulty: partial[Struck]
) -> None:
    """A read after a look may fail more often than there are engine attempts; none is spent."""
    world = SandboxWorld()
    faults = faulty("attempts.read")

    run = await silent_until_ended(world, faults)

    assert faults.spent
    assert (run.status, run.attempt) == (RunStatus.FAILED, 1)
    assert run.why is not None
    assert run.why.rule == "arbitration.ceiling"
    assert spent(world, run) == 1
    assert len(deferrals(world)) == 40
    assert None not in deferrals(world)


async def test_a_read_that_never_answers_does_not_keep_a_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Past the runner's ceiling the error is ordinary: it spends one, and the next wake settles."""
    world = SandboxWorld()
    faults = Struck("terminals.stored", before_it=times(1_000, AWAY))

    run = await silent_until_ended(world, faults)

    assert not faults.spent
    assert (run.status, run.attempt) == (RunStatus.FAILED, 1)
    assert spent(world, run) == 2
    assert deferrals(world) == []


@pytest.mark.parametrize(
    "errors",
    [pytest.param(times(7, AWAY), id="away"), pytest.param(times(7, UNHEARD), id="unheard")],
)
async def test_a_signal_that_cannot_be_taken_yet_is_taken_later(
    autojump_clock: trio.testing.MockClock, errors: list[PortError]
) -> None:
    """A wait without a runner has no ceiling: its signal is taken once the store answers."""
    async with trio.open_nursery() as nursery:
        world = SuspendingWorld(play=waiting, nursery=nursery)
        faults = Struck("signals.take", after_it=errors)
        stop = Stop()
        await world.submit("r1")
        worker = world.sandbox_worker(ports=open_ports(world.world, faults))
        await nursery.start(worker.serve, stop)
        while not world.begun:
            await world.clock.sleep(timedelta(milliseconds=100))
        await world.clock.sleep(timedelta(seconds=10))
        await world.signal("r1", "approved", {"by": "ada"})
        (run,) = await world.until_ended("r1")
        stop.request()

    outcome = await world.ports.runs.read(RunId("r1"), None)
    assert outcome is not None
    assert isinstance(outcome.result, Completed)
    assert isinstance(outcome.result.output, dict)
    assert outcome.result.output["payload"] == {"by": "ada"}
    assert faults.spent
    assert spent(world, run) == 1
    assert deferrals(world) == [None] * 7
