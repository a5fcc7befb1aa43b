"""Runners past their ceiling end, whatever became of lane and worker (C37, C38, L03)."""

from datetime import timedelta

import trio
import trio.testing

from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.result import Completed, Failed, RunnerTerminal
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.recovery import Counts
from deepline.ports.errors import Unavailable
from deepline.ports.terminals import CommitOutcome, TerminalCommit
from deepline.runtime.controller_role import Duty
from deepline.runtime.stop import Stop
from tests.runtime.sandbox_worlds import SandboxWorld

OVERDUE = (Duty.OVERDUE,)
HOUR = timedelta(hours=1)
SECONDS = timedelta(seconds=5)


async def result_of(world: SandboxWorld, run_id: str) -> RunnerTerminal:
    """How a run ended."""
    outcome = await world.ports.runs.read(RunId(run_id), None)
    assert outcome is not None
    assert outcome.result is not None
    return outcome.result


async def test_a_lane_nobody_serves_is_no_refuge(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A parked run ends at its ceiling though no worker of its lane lives (L03, I09)."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1", ceiling=HOUR)
    began = trio.current_time()

    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=OVERDUE).serve, stop)
        (run,) = await world.until_ended("r1", every=SECONDS)
        stop.request()

    assert 3_590 < trio.current_time() - began < 3_620
    result = await result_of(world, "r1")
    assert isinstance(result, Failed)
    assert result.error.startswith("RUNTIME_LIMIT_EXCEEDED:")
    assert run.why is not None
    assert run.why.rule == "overdue.ceiling"
    (expired,) = world.telemetry.named("detached_runner_liveness_expired")
    assert expired.fields["reachedCeiling"] is True
    (told,) = world.telemetry.named("overdue_detached_runner_recovery")
    assert (told.fields["recovered"], told.fields["skipped"]) == (1, 0)
    evidence = await world.ports.runs.evidence(RunId("r1"), None)
    assert evidence is not None
    assert evidence.engine is not None
    assert evidence.engine.state == "cancelled"
    assert len(evidence.cleanup) == 1


async def test_a_fresh_heartbeat_is_no_extension(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A runner that beats to the last ends at its ceiling all the same (I09)."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1", ceiling=HOUR)

    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=OVERDUE).serve, stop)
        while not (await world.run("r1")).status.is_terminal:
            await world.beat("r1")
            await trio.sleep(10)
        stop.request()

    assert isinstance(await result_of(world, "r1"), Failed)


async def test_the_runners_own_terminal_wins(autojump_clock: trio.testing.MockClock) -> None:
    """A terminal pushed between the claim and the commit is what is committed (C37.3, I03)."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1", ceiling=HOUR)
    real = world.ports.terminals.commit

    async def commit(asked: TerminalCommit) -> CommitOutcome:
        await world.push("r1", terminal=Completed(output="just in time"))
        return await real(asked)

    object.__setattr__(world.ports.terminals, "commit", commit)
    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=OVERDUE).serve, stop)
        await world.until_ended("r1", every=SECONDS)
        stop.request()

    assert await result_of(world, "r1") == Completed(output="just in time")
    assert world.telemetry.named("detached_runner_liveness_expired") == []


async def test_a_terminal_pushed_before_the_ceiling_wins(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Where nobody recovers terminals, the ceiling's pass settles the stored one (C37.3)."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1", ceiling=HOUR)
    await world.push("r1", terminal=Completed(output="long ago"))

    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=OVERDUE).serve, stop)
        await world.until_ended("r1", every=SECONDS)
        stop.request()

    assert await result_of(world, "r1") == Completed(output="long ago")


async def test_a_backlog_is_worked_off_without_a_pause(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Passes follow each other at once while they end runs (C38.2)."""
    world, stop = SandboxWorld(), Stop()
    runs = [f"r{number:02}" for number in range(12)]
    await world.abandoned(*runs, ceiling=HOUR)
    await trio.sleep(2 * HOUR.total_seconds())
    began = trio.current_time()

    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=OVERDUE).serve, stop)
        await world.until_ended(*runs)
        assert trio.current_time() - began < 1
        stop.request()

    for run_id in runs:
        assert await world.terminal_facts(run_id) == ["run.failed"]


async def test_two_controllers_and_a_worker_end_it_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """At the ceiling a wake and two controllers may meet; one terminal comes of it (I01)."""
    world, stop = SandboxWorld(), Stop()
    runs = [f"r{number}" for number in range(6)]
    await world.abandoned(*runs, ceiling=HOUR)

    async with trio.open_nursery() as nursery:
        for name in ("c1", "c2"):
            await nursery.start(world.controllers(name, duties=OVERDUE).serve, stop)
        await nursery.start(world.sandbox_worker("w2").serve, stop)
        await world.until_ended(*runs, every=SECONDS)
        stop.request()

    for run_id in runs:
        assert await world.terminal_facts(run_id) == ["run.failed"]
    assert len(world.telemetry.named("terminal_committed")) == len(runs)


async def test_a_controller_that_dies_after_its_claim_blocks_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Between claim and commit the process dies; a lease later another one ends the run (Q20)."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1", ceiling=HOUR)
    await trio.sleep(HOUR.total_seconds() + 1)
    attempt = await world.ports.attempts.read(AttemptKey(RunId("r1"), 1))
    assert attempt is not None
    lease = world.limits.claim_lease
    assert await world.ports.recovery.claim_overdue(attempt.ref, owner="dead", lease=lease)
    began = trio.current_time()

    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=OVERDUE).serve, stop)
        await world.until_ended("r1", every=SECONDS)
        stop.request()

    assert lease.total_seconds() <= trio.current_time() - began < lease.total_seconds() + 20


async def test_a_runner_that_was_bound_and_never_parked_is_overdue_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A worker died between bind and park, and its lane with it: the ceiling ends the run (L01)."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1", ceiling=HOUR)
    row = world.world.attempts[AttemptKey(RunId("r1"), 1)]
    row.status = type(row.status).RUNNING
    world.world.runs[RunId("r1")].status = RunStatus.RUNNING

    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=OVERDUE).serve, stop)
        (run,) = await world.until_ended("r1", every=SECONDS)
        stop.request()

    assert run.status is RunStatus.FAILED


async def test_a_store_away_is_waited_out_quietly(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A pass that fails is told at most once a minute, and the loop lives on (C38.3)."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1", ceiling=HOUR)
    await trio.sleep(2 * HOUR.total_seconds())
    real, away_until = world.ports.recovery.overdue, trio.current_time() + 600

    async def overdue(**named: object) -> object:
        if trio.current_time() < away_until:
            raise Unavailable("away")
        return await real(**named)  # type: ignore[arg-type]

    object.__setattr__(world.ports.recovery, "overdue", overdue)
    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=OVERDUE).serve, stop)
        await world.until_ended("r1", every=SECONDS)
        stop.request()

    failed = world.telemetry.named("overdue_detached_runner_recovery_failed")
    assert 8 <= len(failed) <= 11
    assert failed[0].fields["error"] == "away"
    assert failed[-1].fields["unlogged"] == 3


async def test_what_cannot_be_ended_does_not_spin(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A candidate that is skipped again and again is looked at once a lease (Q20)."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1", ceiling=HOUR)
    del world.world.launches[RunId("r1")]
    await trio.sleep(2 * HOUR.total_seconds())

    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=OVERDUE).serve, stop)
        await trio.sleep(600)
        stop.request()

    skipped = world.telemetry.named("overdue_detached_runner_skipped")
    assert 9 <= len(skipped) <= 11
    assert skipped[0].fields["rule"] == "overdue.launch_missing"


async def test_an_unreadable_suspension_is_named_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nobody knows when it is over, so it is left alone and reported once (C37.5, Q20)."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1", ceiling=HOUR)
    world.world.attempts[AttemptKey(RunId("r1"), 1)].suspension = None

    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=OVERDUE).serve, stop)
        await trio.sleep(2 * HOUR.total_seconds())
        stop.request()

    (named,) = world.telemetry.named("overdue_detached_runner_unreadable")
    assert (named.fields["runId"], named.fields["attempt"]) == ("r1", 1)
    assert (await world.run("r1")).status is RunStatus.WAITING


async def test_a_pass_counts_what_it_came_to(autojump_clock: trio.testing.MockClock) -> None:
    """An end of another's is a skip, an end of ours a recovery (C37.5)."""
    world = SandboxWorld()
    await world.abandoned("r1", "r2", ceiling=HOUR)
    await trio.sleep(2 * HOUR.total_seconds())
    real = world.ports.terminals.commit

    async def commit(asked: TerminalCommit) -> CommitOutcome:
        if asked.ref.run_id == "r1":
            await world.cancel("r1")
        return await real(asked)

    object.__setattr__(world.ports.terminals, "commit", commit)
    seen: list[Counts] = []
    controllers = world.controllers(duties=OVERDUE)
    seen.append(await controllers._overdue.run_pass())

    assert seen == [Counts(recovered=1, skipped=1)]
    assert (await world.run("r1")).status is RunStatus.CANCELLED
    suspension = world.world.attempts[AttemptKey(RunId("r2"), 1)].suspension
    assert isinstance(suspension, DetachedSuspension)


async def test_a_lone_worker_may_take_the_ceilings(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Without a controller a worker looks after every lane where it is asked to (C03.3)."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1", ceiling=HOUR)
    world.world.queue.sleep(
        world.world.queue.tasks[world.world.runs[RunId("r1")].task_id or ""].current,
        world.clock.now() + timedelta(days=9),
    )
    worker = world.sandbox_worker("w2", recovers=True, recover_overdue=True)

    async with trio.open_nursery() as nursery:
        await nursery.start(worker.serve, stop)
        (run,) = await world.until_ended("r1", every=SECONDS)
        stop.request()

    assert run.why is not None
    assert run.why.rule == "overdue.ceiling"
    (started,) = [
        event
        for event in world.telemetry.named("worker_started")
        if event.fields["workerName"] == "w2"
    ]
    assert started.fields["overdueDetachedRunnerRecovery"] is True
