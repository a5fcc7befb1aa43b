"""Terminals that a dead worker left: settled once, by whoever comes first (C35, C36, L02, I01)."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from deepline.core.model.identity import RunId
from deepline.core.model.result import Completed, Failed
from deepline.core.model.run import RunStatus
from deepline.ports.errors import OutcomeUnknown, Unavailable
from deepline.ports.terminals import CommitOutcome, NotCommitted, TerminalCommit
from deepline.runtime.controller_role import Controllers, Duty
from deepline.runtime.stop import Stop
from deepline.runtime.worker import BadConfiguration
from tests.runtime.sandbox_worlds import SandboxWorld
from tests.runtime.worlds import InProcessBackend, SmallWorld

RECOVERY = (Duty.RECOVERY,)


async def served(*controllers: Controllers, until: Callable[[], Awaitable[object]]) -> None:
    """Let controllers serve until something has come about, then stop them."""
    stop = Stop()
    async with trio.open_nursery() as nursery:
        for one in controllers:
            await nursery.start(one.serve, stop)
        await until()
        stop.request()


async def test_a_terminal_left_by_a_dead_worker_is_settled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Pushed while no worker lives, on a lane nobody serves, it still ends the run (L02)."""
    world = SandboxWorld()
    await world.abandoned("r1")
    await world.push("r1", terminal=Completed(output="truth"))
    began = trio.current_time()

    await served(world.controllers(duties=RECOVERY), until=lambda: world.until_ended("r1"))

    assert trio.current_time() - began < 30
    outcome = await world.ports.runs.read(RunId("r1"), None)
    assert outcome is not None
    assert outcome.result == Completed(output="truth")
    assert outcome.run.why is not None
    assert outcome.run.why.rule == "recovery.runner_terminal"
    evidence = await world.ports.runs.evidence(RunId("r1"), None)
    assert evidence is not None
    assert evidence.engine is not None
    assert evidence.engine.state == "cancelled"
    assert [job.sandbox_id is not None for job in evidence.cleanup] == [True]
    assert len(world.telemetry.named("terminal_committed")) == 1


async def test_the_facts_of_a_recovered_run_are_delivered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A controller with a ledger asks for the delivery at once (C36)."""
    world = SandboxWorld()
    await world.abandoned("r1")
    await world.push("r1")

    async def delivered() -> None:
        while not [one for one in world.world.run_events.get(RunId("r1"), {}) if "term" in one]:
            await trio.sleep(0.1)

    await served(world.controllers(duties=RECOVERY), until=delivered)


async def test_a_fresh_terminal_is_left_to_its_wake(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Within the grace the wake that the push caused is given its chance."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1")
    await world.push("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers(duties=RECOVERY).serve, stop)
        await trio.sleep(world.limits.recovery_grace.total_seconds() - 1)
        stop.request()

    assert (await world.run("r1")).status is RunStatus.WAITING


async def test_a_worker_settles_its_lane_before_it_claims(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What was left on its lane is settled before the claim loop starts, as recovery (C03.1)."""
    world, stop = SandboxWorld(), Stop()
    await world.abandoned("r1")
    await world.push("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker("w2", recovers=True).serve, stop)
        run = await world.run("r1")
        stop.request()

    assert run.status is RunStatus.COMPLETED
    assert run.why is not None
    assert run.why.rule == "recovery.runner_terminal"


async def test_a_store_away_at_the_start_does_not_stop_a_worker(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Recovery before the claims is best effort: the worker starts, and settles later."""
    world, stop, failures = SandboxWorld(), Stop(), 1
    await world.abandoned("r1")
    await world.push("r1")
    real = world.ports.recovery.unsettled

    async def unsettled(**named: object) -> object:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise Unavailable("away")
        return await real(**named)  # type: ignore[arg-type]

    object.__setattr__(world.ports.recovery, "unsettled", unsettled)
    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker("w2", recovers=True).serve, stop)
        (run,) = await world.until_ended("r1")
        stop.request()

    assert run.status is RunStatus.COMPLETED
    assert len(world.telemetry.named("completed_runner_recovery_failed")) == 1


async def test_one_bad_terminal_never_stops_the_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A launch that is gone and a commit that breaks cost the other runs nothing (C35)."""
    world = SandboxWorld()
    runs = ("r1", "r2", "r3", "r4")
    await world.abandoned(*runs)
    for run_id in runs:
        await world.push(run_id)
    del world.world.launches[RunId("r1")]
    real = world.ports.terminals.commit

    async def commit(asked: TerminalCommit) -> CommitOutcome:
        if asked.ref.run_id == "r2":
            raise RuntimeError("a bug of ours")
        return await real(asked)

    object.__setattr__(world.ports.terminals, "commit", commit)
    await served(world.controllers(duties=RECOVERY), until=lambda: world.until_ended("r3", "r4"))

    assert (await world.run("r1")).status is RunStatus.WAITING
    assert (await world.run("r2")).status is RunStatus.WAITING
    (skipped, *_) = world.telemetry.named("recovered_terminal_skipped")
    assert (skipped.fields["runId"], skipped.fields["rule"]) == ("r1", "recovery.launch_missing")
    (failed, *_) = world.telemetry.named("completed_runner_settlement_failed")
    assert (failed.fields["runId"], failed.fields["error"]) == ("r2", "a bug of ours")


async def test_two_controllers_settle_once(autojump_clock: trio.testing.MockClock) -> None:
    """Two controllers and the waking worker at once: one terminal, one fact (I01, I20)."""
    world, stop = SandboxWorld(), Stop()
    runs = [f"r{number}" for number in range(8)]
    await world.abandoned(*runs)
    for run_id in runs:
        await world.push(run_id)
    await trio.sleep(world.limits.recovery_grace.total_seconds())

    async with trio.open_nursery() as nursery:
        for name in ("c1", "c2"):
            await nursery.start(world.controllers(name, ledger=world.ledger).serve, stop)
        await nursery.start(world.sandbox_worker("w2").serve, stop)
        await world.until_ended(*runs)
        stop.request()

    for run_id in runs:
        assert await world.terminal_facts(run_id) == ["run.completed"]
    assert len(world.telemetry.named("terminal_committed")) == len(runs)


async def test_an_unknown_outcome_is_found_out_by_the_next_pass(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A commit whose answer was lost is not repeated: the run is over and found so (F06)."""
    world = SandboxWorld()
    await world.abandoned("r1")
    await world.push("r1")
    real, asked = world.ports.terminals.commit, 0

    async def commit(commit: TerminalCommit) -> CommitOutcome:
        nonlocal asked
        asked += 1
        await real(commit)
        raise OutcomeUnknown("the line broke")

    object.__setattr__(world.ports.terminals, "commit", commit)

    async def two_passes() -> None:
        await world.until_ended("r1")
        await trio.sleep(40)

    await served(world.controllers(duties=RECOVERY), until=two_passes)

    assert asked == 1
    assert await world.terminal_facts("r1") == ["run.completed"]


async def test_a_stuck_settlement_is_let_go(autojump_clock: trio.testing.MockClock) -> None:
    """A commit that never answers holds the next one up for its bound, no longer (L09)."""
    world = SandboxWorld()
    await world.abandoned("r1", "r2")
    for run_id in ("r1", "r2"):
        await world.push(run_id)
    real = world.ports.terminals.commit

    async def commit(asked: TerminalCommit) -> CommitOutcome:
        if asked.ref.run_id == "r1":
            await trio.sleep_forever()
        return await real(asked)

    object.__setattr__(world.ports.terminals, "commit", commit)
    began = trio.current_time()

    async def ended() -> None:
        await world.until_ended("r2")
        assert trio.current_time() - began < 60

    await served(world.controllers(duties=RECOVERY), until=ended)

    (failed, *_) = world.telemetry.named("completed_runner_settlement_failed")
    assert "longer than 30 s" in str(failed.fields["error"])


async def test_what_another_hand_holds_is_skipped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A fence lost while the run is open is told and left to the hand that has it (C35.6)."""
    world = SandboxWorld()
    await world.abandoned("r1")
    await world.push("r1")

    async def commit(asked: TerminalCommit) -> CommitOutcome:
        return NotCommitted(status=RunStatus.RUNNING)

    object.__setattr__(world.ports.terminals, "commit", commit)

    async def told() -> None:
        while not world.telemetry.named("recovered_terminal_conflict"):
            await trio.sleep(1)

    await served(world.controllers(duties=RECOVERY), until=told)

    assert (await world.run("r1")).status is RunStatus.WAITING


async def test_a_failed_recovery_lets_go_of_what_the_attempt_held(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A failed end releases the attempt's receipts, whoever settles it (C28, C42)."""
    world = SandboxWorld()
    await world.abandoned("r1")
    await world.push("r1", terminal=Failed(error="PLAY_FAILED: it broke"))
    released: list[str] = []
    real = world.ports.receipts.release

    async def release(ref: object, *, reason: str) -> int:
        released.append(reason)
        return await real(ref, reason=reason)  # type: ignore[arg-type]

    object.__setattr__(world.ports.receipts, "release", release)
    await served(world.controllers(duties=RECOVERY), until=lambda: world.until_ended("r1"))

    assert released == ["failed_terminal"]


async def test_projection_cannot_undo_an_end(autojump_clock: trio.testing.MockClock) -> None:
    """Whatever goes wrong after the commit is a warning; the terminal stands (C36, I30)."""
    world = SandboxWorld()
    await world.abandoned("r1")
    await world.push("r1", terminal=Failed(error="PLAY_FAILED: it broke"))

    async def release(ref: object, *, reason: str) -> int:
        raise RuntimeError("a bug of ours")

    object.__setattr__(world.ports.receipts, "release", release)
    await served(world.controllers(duties=RECOVERY), until=lambda: world.until_ended("r1"))

    (warned,) = world.telemetry.named("recovered_terminal_projection_failed")
    assert warned.fields["runId"] == "r1"
    assert (await world.run("r1")).status is RunStatus.FAILED


async def test_a_stop_is_obeyed_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """An idle controller ends within half a second of being asked (C38.2, L10)."""
    world, stop = SmallWorld(), Stop()

    async with trio.open_nursery() as nursery:
        await nursery.start(world.controllers().serve, stop)
        await trio.sleep(3.3)
        stop.request()
        asked_at = trio.current_time()

    assert trio.current_time() - asked_at <= 0.5


def test_duties_without_their_ports_are_refused() -> None:
    """A worker that is to look after every lane must be given the ports for it."""
    with pytest.raises(BadConfiguration, match="overdue, stranded"):
        SmallWorld().worker(InProcessBackend(), recover_overdue=True, reap_stranded=True)
