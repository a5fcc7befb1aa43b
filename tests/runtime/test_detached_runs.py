"""Detached runs: pushed terminals, silence, the ceiling, and workers that die in between."""

from datetime import timedelta

import pytest
import trio
import trio.testing

from deepline.adapters.memory.faults import NoFaults
from deepline.adapters.memory.ports import open_ports
from deepline.adapters.memory.sandbox_provider import Life
from deepline.core.model.identity import RunId
from deepline.core.model.result import Failed
from deepline.core.model.run import RunStatus
from deepline.core.model.sandbox import Resources
from deepline.core.model.why import Why
from deepline.ports.errors import (
    ExecutorTokenUnavailable,
    NotFound,
    OutcomeUnknown,
    PortError,
    Unavailable,
)
from deepline.ports.terminals import OfferStored
from deepline.runtime.stop import Stop
from tests.runtime.faulty import Hanging
from tests.runtime.sandbox_worlds import SandboxWorld


async def test_a_pushed_terminal_ends_the_run(autojump_clock: trio.testing.MockClock) -> None:
    """The runner's own terminal is settled at once, and the sandbox is deleted after it (C32.1)."""
    world, stop = SandboxWorld(), Stop()
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        await world.until_parked("r1")
        began = trio.current_time()
        assert isinstance(await world.push("r1"), OfferStored)
        (run,) = await world.until_ended("r1")
        assert trio.current_time() - began < 1
        await world.until_clean()
        stop.request()

    assert run.status is RunStatus.COMPLETED
    assert run.why is not None
    assert run.why.rule == "arbitration.pushed_terminal"


async def test_a_cancel_takes_the_sandbox_away_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What a cancelled play still does is wanted by nobody, so no poll is waited for (C10)."""
    world, stop = SandboxWorld(), Stop()
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        await world.until_parked("r1")
        began = trio.current_time()
        why = Why("cancel.requested", {})
        await world.ports.terminals.cancel(RunId("r1"), by="me", reason="enough", why=why)
        await world.until_clean()
        assert trio.current_time() - began < 1
        stop.request()


async def test_a_vanished_runner_is_lost(autojump_clock: trio.testing.MockClock) -> None:
    """Silence confirmed and a sandbox proven gone end the run as lost, not retried (C32.9)."""
    life = Life(runs_for=timedelta(seconds=30), exit_code=137)
    world, stop = SandboxWorld(life=life), Stop()
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        await world.until_started()
        await world.beat("r1")
        (run,) = await world.until_ended("r1")
        stop.request()

    outcome = await world.ports.runs.read(run.run_id, None)
    assert outcome is not None
    assert isinstance(outcome.result, Failed)
    assert outcome.result.error.startswith("RUNTIME_RUNNER_LOST:")
    assert len(world.provider.sandboxes) == 1


class LooksFail(NoFaults):
    """Every look at a sandbox meets this error."""

    def __init__(self, error: PortError) -> None:
        self.error = error

    async def before(self, operation: str) -> None:
        """Raise it."""
        if operation == "local.inspect":
            raise self.error


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        pytest.param(NotFound("no such sandbox"), True, id="A14-typed-absence"),
        pytest.param(Unavailable("502"), False, id="I07-any-other-error"),
    ],
)
async def test_only_one_error_of_a_look_proves_anything(
    autojump_clock: trio.testing.MockClock, error: PortError, lost: bool
) -> None:
    """That the sandbox does not exist is proof, if it is said as that; nothing else is (A14)."""
    world, stop = SandboxWorld(), Stop()
    world.provider.faults = LooksFail(error)
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        await world.until_started()
        await world.beat("r1")
        await trio.sleep(300)
        run = world.world.runs[RunId("r1")]
        stop.request()

    assert (run.status is RunStatus.FAILED) is lost


async def test_a_look_without_an_answer_is_no_failed_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A look that runs out of its time proves nothing, and is told apart from an error (C33)."""
    world, stop = SandboxWorld(), Stop()
    world.provider.faults = Hanging("local.inspect")
    await world.submit("r1", ceiling=timedelta(minutes=5))

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        await world.until_ended("r1")
        stop.request()

    evidence = await world.ports.runs.evidence(RunId("r1"), None)
    assert evidence is not None
    unproven = [one.why for one in evidence.decisions if one.why.rule.endswith("not_proven_gone")]
    assert {why.evidence["inspection"] for why in unproven} == {"inspection_empty"}


async def test_a_running_sandbox_is_left_alone(autojump_clock: trio.testing.MockClock) -> None:
    """However long it is silent, a running sandbox gets no verdict before its ceiling (I08)."""
    world, stop = SandboxWorld(), Stop()
    await world.submit("r1", ceiling=timedelta(hours=2))

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        began = trio.current_time()
        (run,) = await world.until_ended("r1")
        assert 7_190 < trio.current_time() - began < 7_300
        stop.request()

    outcome = await world.ports.runs.read(run.run_id, None)
    assert outcome is not None
    assert isinstance(outcome.result, Failed)
    assert outcome.result.error.startswith("RUNTIME_LIMIT_EXCEEDED:")


async def test_a_worker_that_dies_after_parking_is_not_missed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A terminal pushed while no worker lives is settled by the next one (L02)."""
    world, stop = SandboxWorld(), Stop()
    await world.submit("r1")

    async with trio.open_nursery() as first:
        await first.start(world.sandbox_worker("w1").serve, Stop())
        await world.until_parked("r1")
        first.cancel_scope.cancel()
    await world.push("r1")
    async with trio.open_nursery() as second:
        await second.start(world.sandbox_worker("w2").serve, stop)
        (run,) = await world.until_ended("r1")
        stop.request()

    assert run.status is RunStatus.COMPLETED
    assert run.attempt == 1


async def test_a_token_outage_is_waited_out(autojump_clock: trio.testing.MockClock) -> None:
    """A short outage of the token route costs no engine attempt (C17, I15, I19)."""
    world, stop = SandboxWorld(), Stop()
    world.tokens.script.extend(ExecutorTokenUnavailable("down", 503) for _ in range(4))
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        await world.until_parked("r1")
        await world.push("r1", attempt=5)
        (run,) = await world.until_ended("r1")
        stop.request()

    evidence = await world.ports.runs.evidence(run.run_id, None)
    assert evidence is not None
    assert run.status is RunStatus.COMPLETED
    assert {one.engine_attempt for one in evidence.attempts} == {1}


async def test_a_token_outage_past_its_bound_is_loud(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """After ten minutes of unbroken outage the run fails, saying why (C17.4, C20, L07)."""
    world, stop = SandboxWorld(), Stop()
    world.tokens.script.extend(ExecutorTokenUnavailable("down", 503) for _ in range(1_000))
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        began = trio.current_time()
        (run,) = await world.until_ended("r1")
        assert 590 < trio.current_time() - began < 700
        stop.request()

    assert run.status is RunStatus.FAILED
    assert run.why is not None
    assert run.why.rule == "salvage.forced"


async def test_a_store_away_for_a_moment_loses_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Writes are repeated while the claim lasts, so a short outage costs nothing (F63)."""
    world, stop = SandboxWorld(), Stop()
    await world.submit("r1")
    worker = world.sandbox_worker()
    real, failures = world.ports.attempts.park, 3

    async def park(*arguments: object, **named: object) -> object:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise Unavailable("away")
        return await real(*arguments, **named)  # type: ignore[arg-type]

    object.__setattr__(world.ports.attempts, "park", park)
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.serve, stop)
        await world.until_parked("r1")
        await world.push("r1")
        (run,) = await world.until_ended("r1")
        stop.request()

    assert run.status is RunStatus.COMPLETED
    assert run.attempt == 1


class StoreFails(NoFaults):
    """One operation of the store meets errors: the first ones before it, then ones after it."""

    def __init__(self, operation: str, *, before: int, after: int) -> None:
        self.operation = operation
        self.left = {"before": before, "after": after}

    def _take(self, side: str, operation: str) -> bool:
        taken = operation == self.operation and self.left[side] > 0
        self.left[side] -= taken
        return taken

    async def before(self, operation: str) -> None:
        """Nothing was done."""
        if self._take("before", operation):
            raise Unavailable("away")

    async def after(self, operation: str) -> None:
        """It was done, and nobody knows."""
        if self._take("after", operation):
            raise OutcomeUnknown("no answer")


@pytest.mark.parametrize("operation", ["capacity.reserve", "attempts.bind_sandbox"])
async def test_a_store_away_before_the_play_began_costs_nothing(
    autojump_clock: trio.testing.MockClock, operation: str
) -> None:
    """Reserving and binding are repeated; no attempt is spent and one sandbox is made (I15)."""
    world, stop = SandboxWorld(), Stop()
    faults = StoreFails(operation, before=3, after=2)
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        worker = world.sandbox_worker(ports=open_ports(world.world, faults))
        await nursery.start(worker.serve, stop)
        await world.until_parked("r1")
        await world.push("r1")
        (run,) = await world.until_ended("r1")
        task = world.world.queue.tasks[run.task_id or ""]
        stop.request()

    assert faults.left == {"before": 0, "after": 0}
    assert (run.status, run.attempt) == (RunStatus.COMPLETED, 1)
    assert task.current.attempt == 1
    assert len(world.provider.sandboxes) == 1


class CreateFails(NoFaults):
    """Creates meet these errors, one each, before anything is made."""

    def __init__(self, *errors: PortError) -> None:
        self.errors = list(errors)
        self.met = trio.Event()

    async def before(self, operation: str) -> None:
        """Raise the next error of a create."""
        if operation == "local.create" and self.errors:
            self.met.set()
            raise self.errors.pop(0)


async def test_a_create_that_lands_late_is_found(autojump_clock: trio.testing.MockClock) -> None:
    """A sandbox that appears after its run was cancelled is looked for and deleted (C48, Q24)."""
    world, stop = SandboxWorld(), Stop()
    fails = CreateFails(*(OutcomeUnknown("no answer") for _ in range(3)))
    world.provider.faults = fails
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        await fails.met.wait()
        await world.cancel("r1")
        await trio.sleep(120)
        (row,) = world.world.operations.values()
        fails.errors.clear()
        await world.provider.create(row.operation, Resources())
        await world.until_clean()
        await trio.sleep(world.limits.create_may_land.total_seconds())
        stop.request()

    assert [job.done_at is not None for job in world.world.cleanup_jobs.values()] == [True]


async def test_a_create_that_never_happened_holds_no_place(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Where the provider certainly made nothing, the reservation is forgotten at once (C46)."""
    world, stop = SandboxWorld(), Stop()
    world.provider.faults = CreateFails(Unavailable("away"), Unavailable("away"))
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        await world.until_started()
        stop.request()

    states = [row.state for row in world.world.operations.values()]
    assert states == ["abandoned", "abandoned", "bound"]


class HangsOnce(NoFaults):
    """A provider whose first create never answers."""

    def __init__(self) -> None:
        self.asked = 0

    async def before(self, operation: str) -> None:
        """Wait for ever, the first time."""
        if operation == "local.create":
            self.asked += 1
            if self.asked == 1:
                await trio.sleep_forever()


async def test_fault_F19_a_create_that_hangs(autojump_clock: trio.testing.MockClock) -> None:
    """Provisioning has a deadline of its own: the run is put off, and begins with the next one."""
    world, stop = SandboxWorld(), Stop()
    world.provider.faults = HangsOnce()
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        await world.until_started()
        assert trio.current_time() > world.limits.provisioning.total_seconds()
        stop.request()

    assert (await world.run("r1")).attempt == 2
    assert [job.engine_attempt for job in world.world.attempts.values()] == [1, 1]
