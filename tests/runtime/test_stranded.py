"""Runs that the engine lost come to an end, or to life again where nothing had begun (L01, L08)."""

from datetime import timedelta

import attrs
import pytest
import trio
import trio.testing

from deepline.core.limits import Limits
from deepline.core.model.attempt import Attempt
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.claim import Claim, Fresh
from deepline.core.model.identity import Lane, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.result import Completed, Failed, RunnerResult, Suspended
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import SleepSuspension
from deepline.core.model.why import Why
from deepline.ports.attempts import ClaimRequest
from deepline.ports.terminals import CommitOutcome, NotCommitted, TerminalCommit
from deepline.runtime.controller_role import Duty
from deepline.runtime.stop import Stop
from tests.runtime.sandbox_worlds import SandboxWorld
from tests.runtime.worlds import InProcessBackend, SmallWorld

STRANDED = (Duty.STRANDED,)
FEW = attrs.evolve(Limits(), max_engine_attempts=1, finaliser_attempts=1)


async def acknowledged(world: SmallWorld, *run_ids: str) -> None:
    """Submit runs and have their created facts acknowledged."""
    await world.submit(*run_ids)
    for run_id in run_ids:
        lease = await world.ports.outbox.lease_run(
            RunId(run_id), "submitter", lease=timedelta(seconds=5), facts_per_run=9
        )
        assert lease is not None
        await world.ports.outbox.delivered(lease, through_seq=1)


async def claim(world: SmallWorld) -> list[Fresh]:
    """Claim what is due, as a worker that is never seen again."""
    request = ClaimRequest(
        lane=Lane("runs"),
        owner=f"dead-{trio.current_time()}",
        worker="dead",
        lease=world.limits.claim_lease,
        quantity=10,
        org_limit=100,
        placement_keys=world.worker(InProcessBackend()).claims.settings.placement_keys,
    )
    return [one for one in await world.ports.attempts.claim(request) if isinstance(one, Fresh)]


async def use_up(world: SmallWorld) -> None:
    """Let every engine attempt be claimed and lost, finalisers too."""
    for _ in range(world.limits.max_engine_attempts + world.limits.finaliser_attempts):
        await claim(world)
        await trio.sleep(world.limits.claim_lease.total_seconds() + 1)
        await claim(world)
        await trio.sleep(world.limits.retry_max.total_seconds())


def end_task(world: SmallWorld, run_id: str, state: str = "failed") -> None:
    """End the engine's task beside the run."""
    task_id = world.world.runs[RunId(run_id)].task_id
    assert task_id is not None
    world.world.queue.cancel(task_id)
    world.world.queue.tasks[task_id].state = state


async def reaped(world: SmallWorld, *run_ids: str) -> None:
    """Serve as a controller until the runs have ended."""
    stop = Stop()
    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=STRANDED).serve, stop)
        await world.until_ended(*run_ids, every=timedelta(seconds=1))
        stop.request()


async def test_a_run_whose_engine_attempts_are_used_up_is_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Workers died on every attempt and on every finaliser: the run fails and says so (L01)."""
    world = SmallWorld(limits=FEW)
    await acknowledged(world, "r1")
    await use_up(world)
    assert (await world.run("r1")).status is RunStatus.RUNNING

    await reaped(world, "r1")

    outcome = await world.ports.runs.read(RunId("r1"), None)
    assert outcome is not None
    assert isinstance(outcome.result, Failed)
    assert outcome.result.error.startswith("RUNTIME_RUN_STRANDED:")
    assert outcome.run.why is not None
    assert outcome.run.why.rule == "stranded.unstarted"
    assert await world.terminal_facts("r1") == ["run.failed"]


async def test_a_run_without_an_attempt_is_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A task that is over before any attempt leaves no run queued for ever (L08, C15.R5)."""
    world = SmallWorld()
    await acknowledged(world, "r1")
    end_task(world, "r1", "completed")

    await reaped(world, "r1")

    run = await world.run("r1")
    assert run.status is RunStatus.CANCELLED
    assert run.why is not None
    assert run.why.rule == "stranded.unstarted"
    (told,) = world.telemetry.named("attempt_preparation_exhausted")
    assert str(told.fields["reason"]).startswith("SCHEDULER_ATTEMPT_PREPARATION_FAILED:")


async def test_a_missing_task_of_an_unstarted_run_is_made_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nothing had begun, so the run is executed after all, once (C07.8)."""
    world, backend, stop = SmallWorld(), InProcessBackend(), Stop()
    await acknowledged(world, "r1")
    world.world.queue.cancel(world.world.runs[RunId("r1")].task_id)
    world.world.runs[RunId("r1")].task_id = None

    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=STRANDED).serve, stop)
        await nursery.start(world.worker(backend).serve, stop)
        (run,) = await world.until_ended("r1", every=timedelta(seconds=1))
        stop.request()

    assert run.status is RunStatus.COMPLETED
    assert backend.executed == ["r1"]
    assert len(world.telemetry.named("stranded_run_spawned")) == 1


async def test_a_play_that_had_started_is_never_started_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A sleeping play whose task is missing fails: it may have acted already (I11)."""

    async def sleeps(launch: Launch, attempt: Attempt, held: Claim) -> RunnerResult:
        nap = SleepSuspension(
            boundary_id="nap",
            runner_attempt=attempt.ref.attempt,
            wake_at=world.clock.now() + timedelta(days=2),
        )
        return Suspended(suspension=nap)

    world, backend, stop = SmallWorld(), InProcessBackend(sleeps), Stop()
    await acknowledged(world, "r1")
    async with trio.open_nursery() as nursery:
        await nursery.start(world.worker(backend).serve, stop)
        while (await world.run("r1")).status is not RunStatus.WAITING:
            await trio.sleep(1)
        stop.request()
    world.world.queue.cancel(world.world.runs[RunId("r1")].task_id)
    world.world.runs[RunId("r1")].task_id = None

    await reaped(world, "r1")

    run = await world.run("r1")
    assert run.why is not None
    assert run.why.rule == "stranded.play_started"
    assert backend.executed == ["r1"]


async def test_a_runner_that_may_live_is_left_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its task is over, but its runner works on: its own terminal ends the run (I08, I14)."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1")
    end_task(world, "r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers().serve, stop)
        await trio.sleep(3_600)
        assert (await world.run("r1")).status is RunStatus.WAITING
        await world.push("r1", terminal=Completed(output="after all"))
        (run,) = await world.until_ended("r1", every=timedelta(seconds=1))
        stop.request()

    assert run.status is RunStatus.COMPLETED


@pytest.mark.parametrize("duties", [(Duty.STRANDED,), tuple(Duty)], ids=["alone", "all"])
async def test_a_stranded_terminal_is_settled(
    duties: tuple[Duty, ...], autojump_clock: trio.testing.MockClock
) -> None:
    """A stored terminal is the run's end, whichever duty comes to it first (I03)."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1")
    await world.push("r1", terminal=Completed(output="truth"))
    end_task(world, "r1")

    async with trio.open_nursery() as nursery:
        for name in ("c1", "c2"):
            await nursery.start(world.controllers(name, duties=duties).serve, stop)
        await world.until_ended("r1", every=timedelta(seconds=1))
        stop.request()

    outcome = await world.ports.runs.read(RunId("r1"), None)
    assert outcome is not None
    assert outcome.result == Completed(output="truth")
    assert await world.terminal_facts("r1") == ["run.completed"]


async def test_a_run_that_lost_its_launch_still_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What only the launch could tell is left out; the end is not (L01)."""
    world = SandboxWorld()
    await world.abandoned("r1")
    await world.push("r1", terminal=Failed(error="PLAY_FAILED: it broke"))
    del world.world.launches[RunId("r1")]
    end_task(world, "r1")

    await reaped(world, "r1")

    assert await world.terminal_facts("r1") == ["run.failed"]


async def test_a_task_that_came_back_keeps_its_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Between finding and ending the run got its task again: the commit is refused (A30)."""
    world, stop = SmallWorld(), Stop()
    await acknowledged(world, "r1")
    (fresh,) = await claim(world)
    await world.ports.attempts.park(
        fresh.attempt.ref,
        fresh.claim,
        SleepSuspension(boundary_id="nap", runner_attempt=1, wake_at=world.clock.now()),
        until=world.clock.now() + timedelta(days=1),
        checkpoint=Checkpoint(),
        silence=None,
        why=Why("test.parked"),
    )
    end_task(world, "r1")
    real, refused = world.ports.terminals.commit, list[CommitOutcome]()

    async def commit(asked: TerminalCommit) -> CommitOutcome:
        world.world.queue.tasks[fresh.claim.task_id].state = "sleeping"
        refused.append(await real(asked))
        return refused[-1]

    object.__setattr__(world.ports.terminals, "commit", commit)
    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=STRANDED).serve, stop)
        await trio.sleep(200)
        stop.request()

    assert refused == [NotCommitted(status=RunStatus.WAITING)]
    assert (await world.run("r1")).status is RunStatus.WAITING


async def test_one_bad_run_never_stops_the_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A run that cannot be looked at costs those behind it nothing."""
    world = SmallWorld()
    await acknowledged(world, "r1", "r2")
    for run_id in ("r1", "r2"):
        end_task(world, run_id)
    real = world.ports.launches.read

    async def read(run_id: RunId, *, caller: str) -> Launch | None:
        if run_id == "r1":
            raise RuntimeError("a bug of ours")
        return await real(run_id, caller=caller)

    object.__setattr__(world.ports.launches, "read", read)
    await reaped(world, "r2")

    (failed, *_) = world.telemetry.named("stranded_run_settlement_failed")
    assert failed.fields["runId"] == "r1"
