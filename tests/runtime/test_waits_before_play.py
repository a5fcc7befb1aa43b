"""A store that never answers before play code runs is waited for, within C53's deadline (I15)."""

from datetime import timedelta

import pytest
import trio
import trio.testing

from deepline.adapters.memory.ports import open_ports
from deepline.adapters.memory.rows import AttemptRow
from deepline.core.model.attempt import RetireReason
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.run import RunStatus
from deepline.ports.errors import ExecutorTokenUnavailable, OutcomeUnknown, PortError, Unavailable
from deepline.runtime.stop import Stop
from tests.runtime.faulty import Struck, times
from tests.runtime.sandbox_worlds import SandboxWorld

RUN = RunId("r1")
AWAY = Unavailable("the database is away")
UNHEARD = OutcomeUnknown("no answer")
A_LEASE_OF_TRIES = 17
"""How often a write is tried in a lease of a minute: pauses grow to 5 s."""


@pytest.mark.parametrize(
    ("operation", "dependency", "errors"),
    [
        pytest.param("capacity.reserve", "scheduler_admission", [AWAY], id="C53-admission"),
        pytest.param("attempts.bind_sandbox", "runtime_initialization", [AWAY], id="C53-bind"),
        pytest.param("attempts.token_obtained", "runtime_initialization", [AWAY], id="C53-token"),
        pytest.param(
            "attempts.bind_sandbox", "runtime_initialization", [UNHEARD], id="C53-bind-unheard"
        ),
    ],
)
async def test_a_step_that_fails_for_a_lease_gives_its_slot_back(
    autojump_clock: trio.testing.MockClock,
    operation: str,
    dependency: str,
    errors: list[PortError],
) -> None:
    """The attempt is retired for the dependency, no engine attempt is spent, the next one works."""
    world, stop = SandboxWorld(), Stop()
    struck = errors * A_LEASE_OF_TRIES
    faults = Struck(operation, after_it=struck) if UNHEARD in errors else Struck(operation, struck)
    if operation == "attempts.token_obtained":
        world.tokens.script.append(ExecutorTokenUnavailable("down", 503))
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        worker = world.sandbox_worker(ports=open_ports(world.world, faults))
        await nursery.start(worker.serve, stop)
        await world.until_parked("r1")
        run = await world.run("r1")
        await world.push("r1", run.attempt)
        (run,) = await world.until_ended("r1")
        await world.until_clean()
        stop.request()

    (told,) = [one for one in world.telemetry.events if one.name == "pre_code_recovery_deferred"]
    assert (told.fields["dependency"], told.fields["reason"]) == (dependency, "connection")
    retired: AttemptRow = world.world.attempts[AttemptKey(RUN, run.attempt - 1)]
    assert retired.retired_reason is RetireReason.PRE_CODE
    assert run.status is RunStatus.COMPLETED
    assert world.world.queue.tasks[run.task_id or ""].current.attempt == 1


async def test_a_step_that_never_works_ends_its_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Past ten minutes the failure is ordinary, and the engine attempts bound it (C53.2)."""
    world, stop = SandboxWorld(), Stop()
    faults = Struck("capacity.reserve", times(100_000, AWAY))
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        worker = world.sandbox_worker(ports=open_ports(world.world, faults))
        await nursery.start(worker.serve, stop)
        (run,) = await world.until_ended("r1")
        stop.request()

    assert run.status is RunStatus.FAILED
    assert run.why is not None
    assert run.why.rule == "salvage.final_attempt"
    assert timedelta(minutes=10) < timedelta(seconds=trio.current_time()) < timedelta(minutes=20)
    assert world.world.queue.tasks[run.task_id or ""].current.attempt == 5
