"""The sweep reads silent runners: what it may conclude, and troubled providers (C39, C40, F70)."""

import itertools
from datetime import timedelta

import attrs
import pytest
import trio
import trio.testing

from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.result import Completed, Failed
from deepline.core.model.run import RunStatus
from deepline.core.model.sandbox import Inspection, Stage
from deepline.core.sweep import ReadCounts, SweepMode, SweepSettings
from deepline.ports.errors import Unavailable
from tests.runtime.sweep_worlds import (
    DOWN,
    FOREVER,
    GONE,
    RUNNING,
    ScriptedProvider,
    SweepWorld,
    sweeping_for,
)


def world_of(**providers: ScriptedProvider) -> SweepWorld:
    """A world with these providers."""
    return SweepWorld(providers=providers)


async def test_a_runner_proven_gone_ends_its_run_in_one_pass(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Without a worker, and without waiting behind anybody's backlog (L04, F25, I53)."""
    world = world_of(local=ScriptedProvider(GONE))
    world.park("run-1")

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(1)

    assert world.status("run-1") is RunStatus.FAILED
    run = world.world.runs[RunId("run-1")]
    assert isinstance(run.terminal, Failed)
    assert run.terminal.error.startswith("RUNTIME_RUNNER_LOST:")
    assert run.terminal.report.stats["sandboxProvider"] == "local"
    assert run.why is not None
    assert run.why.rule == "sweep.lost"
    (expired,) = world.telemetry.named("detached_runner_liveness_expired")
    assert (expired.level, expired.fields["runId"]) == ("error", "run-1")
    (report,) = world.passes()
    told = {name: report[name] for name in ("stale", "inspected", "proven", "settled", "unproven")}
    assert told == {"stale": 1, "inspected": 1, "proven": 1, "settled": 1, "unproven": 0}
    kinds = [row.fact.kind for row in world.world.outbox[RunId("run-1")]]
    assert kinds == ["run.failed"]


async def test_a_result_left_in_the_sandbox_is_the_truth(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A runner whose push was lost completes its run, however long it is silent (F02, A21)."""
    left = Inspection(stage=Stage.COMMAND_EXITED, exit_code=0, result=Completed(output={"rows": 3}))
    world = world_of(local=ScriptedProvider(left))
    world.park("run-1")

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(1)

    run = world.world.runs[RunId("run-1")]
    assert run.status is RunStatus.COMPLETED
    assert run.terminal is not None
    assert run.terminal.report.stats == {"sandboxProvider": "local"}
    assert world.telemetry.named("detached_runner_liveness_expired") == []


async def test_observing_writes_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """It says what it would settle, and no operation of its own but the discovery happens (I35)."""
    world = world_of(local=ScriptedProvider(GONE))
    world.park("run-1")
    world.park("run-2", terminal=Completed(output=1))
    operations: list[str] = []
    world.world.watch = operations.append
    before = {run: attrs.evolve(row) for run, row in world.world.attempts.items()}

    async with sweeping_for(world, world.sweep(SweepMode.OBSERVE)):
        await trio.sleep(100)

    assert set(operations) == {"liveness_work.find"}
    assert world.world.attempts == before
    assert [one["wouldSettle"] for one in world.passes()] == [1, 0, 0, 0, 0, 1, 0]
    assert all(one["recorded"] == one["settled"] == 0 for one in world.passes())
    (first, *_) = world.telemetry.named("detached_runner_liveness_would_settle")
    assert first.fields["diagnosis"] == "sandbox_not_found"


async def test_a_running_sandbox_is_left_alone(autojump_clock: trio.testing.MockClock) -> None:
    """However long its runner is silent, and it is read once a minute at most (I08, I37)."""
    provider = ScriptedProvider(RUNNING)
    world = world_of(local=provider)
    world.park("run-1")

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(3_600)

    assert world.status("run-1") is RunStatus.WAITING
    times = [at for at, _ in provider.asked]
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 60
    assert len(times) == 48, "the first pass after a minute is 75 s after the one before"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(DOWN, [], id="a-5xx-is-no-answer"),
        pytest.param(Unavailable("connection refused"), ["evidence_failed"], id="an-error-is-none"),
    ],
)
async def test_a_dead_provider_proves_nothing(
    answer: Inspection | Exception, said: list[str], autojump_clock: trio.testing.MockClock
) -> None:
    """Every read is unreadable and unproven, and the provider is called blind (F70, C43.3)."""
    world = world_of(local=ScriptedProvider(answer))
    world.park("run-1", "run-2")

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(1)

    (report,) = world.passes()
    assert (report["unreadable"], report["unproven"], report["blindProviders"]) == (2, 2, ["local"])
    assert set(world.names()) == {*said, "unproven", "pass"}
    assert world.status("run-1") is RunStatus.WAITING


async def test_gone_after_an_outage_is_believed(autojump_clock: trio.testing.MockClock) -> None:
    """5xx, then a timeout, then an authoritative no: only the last is death (F70)."""
    provider = ScriptedProvider(DOWN)
    world = world_of(local=provider)
    world.park("run-1")

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(61)
        assert world.status("run-1") is RunStatus.WAITING
        provider.takes_s = 30
        await trio.sleep(60)
        assert world.status("run-1") is RunStatus.WAITING
        provider.takes_s, provider.answer = 0.1, GONE
        await trio.sleep(61)

    assert world.status("run-1") is RunStatus.FAILED


async def test_a_slow_provider_uses_up_nothing_of_another_s(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Lanes are apart: one hangs, the other's dead runners all end within one pass (C40)."""
    slow = ScriptedProvider(GONE, takes_s=FOREVER)
    world = world_of(modal=slow, local=ScriptedProvider(GONE))
    world.park(*(f"slow-{n:02}" for n in range(20)), provider="modal")
    world.park(*(f"dead-{n:02}" for n in range(60)))

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(10.5)

    (report,) = world.passes()
    assert (report["settled"], report["blindProviders"]) == (60, ["modal"])
    assert slow.most_at_once == 3
    assert all(world.status(f"dead-{n:02}") is RunStatus.FAILED for n in range(60))


async def test_a_hung_provider_holds_its_slots_and_then_gives_them_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Reads outlast their pass, are given up at their own deadline, and reading resumes (L09)."""
    provider = ScriptedProvider(GONE, takes_s=FOREVER)
    world = world_of(local=provider)
    world.park(*(f"run-{n:02}" for n in range(10)))

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(59)
        assert len(provider.asked) == 3
        assert [one["inspected"] for one in world.passes()] == [3, 0, 0, 0]
        assert all(one["blindProviders"] == ["local"] for one in world.passes())
        provider.takes_s = 0.1
        await trio.sleep(60)
        assert provider.at_once == 0, "who can be cut short is"
        assert world.sweeping.state.reads_of("local") == ReadCounts()

    assert len(world.telemetry.named("detached_runner_liveness_read_abandoned")) == 3
    assert all(world.status(f"run-{n:02}") is RunStatus.FAILED for n in range(10))


async def test_reads_that_never_end_are_bounded(autojump_clock: trio.testing.MockClock) -> None:
    """Of a provider that cannot be cut short six reads may hang, and no more begin (I34, C40.2)."""
    provider = ScriptedProvider(GONE, takes_s=1_000, ignores_cancellation=True)
    world = world_of(local=provider)
    world.park(*(f"run-{n:02}" for n in range(20)))
    most = 0

    async with sweeping_for(world, world.sweep()):
        for _ in range(60):
            await trio.sleep(10)
            reads = world.sweeping.state.reads_of("local")
            most = max(most, provider.at_once)
            assert reads.in_flight <= 3
            assert reads.in_flight + reads.abandoned == provider.at_once <= 8
        assert most >= 6
        assert len(provider.asked) == most
        assert world.passes()[-1]["unreadable"] == 20
        assert world.passes()[-1]["inspected"] == 0
        provider.takes_s, provider.ignores_cancellation = 0.1, False
        await trio.sleep(1_000)

    assert all(world.status(f"run-{n:02}") is RunStatus.FAILED for n in range(20))


async def test_a_late_answer_changes_no_number(autojump_clock: trio.testing.MockClock) -> None:
    """What comes after the pass's deadline is dropped: the next read may prove it again."""
    provider = ScriptedProvider(GONE, takes_s=12)
    world = world_of(local=provider)
    world.park("run-1")

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(14)

    (report,) = world.passes()
    assert (report["inspected"], report["unproven"], report["proven"]) == (1, 1, 0)
    assert world.status("run-1") is RunStatus.WAITING


async def test_every_stale_runner_has_its_turn(autojump_clock: trio.testing.MockClock) -> None:
    """The cursor walks page after page, and begins anew at the end (I39)."""
    provider = ScriptedProvider(RUNNING)
    world = world_of(local=provider)
    world.settings = SweepSettings(page=5)
    world.park(*(f"run-{n:02}" for n in range(23)))

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(15 * 4 + 1)
        assert len({sandbox for _, sandbox in provider.asked}) == 23
        await trio.sleep(15 * 5)

    assert len(provider.asked) == 46


async def test_a_budget_that_ends_in_a_page_is_taken_up_there(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What had no turn in one pass is first in the next (C39)."""
    provider = ScriptedProvider(RUNNING, takes_s=4)
    world = world_of(local=provider)
    world.park(*(f"run-{n:02}" for n in range(30)))

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(15 * 3 + 1)

    turns = [sorted(sandbox for _, sandbox in provider.asked[n : n + 9]) for n in (0, 9, 18)]
    assert turns == [[f"sandbox-run-{n + first:02}" for n in range(9)] for first in (0, 9, 18)]
    assert [one["budgetExhausted"] for one in world.passes()] == [True] * 3


async def test_an_unreadable_suspension_is_said_and_skipped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nobody knows what to read; the others are read all the same (C40.1)."""
    provider = ScriptedProvider(GONE)
    world = world_of(local=provider)
    world.park("run-1", "run-2")
    world.unreadable.add("run-1")

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(31)

    assert world.status("run-2") is RunStatus.FAILED
    assert world.status("run-1") is RunStatus.WAITING
    assert world.passes()[0]["invalidSuspensions"] == 1
    assert world.passes()[1]["notDue"] == 1
    (said, *_) = world.telemetry.named("detached_runner_liveness_invalid_suspension")
    assert said.fields == {"runId": "run-1", "attempt": 1}


async def test_a_beating_runner_is_not_read(autojump_clock: trio.testing.MockClock) -> None:
    """A heart within its timeout is nobody's business here."""
    provider = ScriptedProvider(GONE)
    world = world_of(local=provider)
    world.park("run-1")

    async with sweeping_for(world, world.sweep()):
        for _ in range(20):
            await world.ports.liveness.beat(AttemptKey(RunId("run-1"), 1))
            await trio.sleep(10)

    assert provider.asked == []
    assert world.status("run-1") is RunStatus.WAITING


async def test_a_heartbeat_during_the_read_refuses_the_verdict(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The conditional write sees it, and the run goes on (I05, F01)."""
    world = world_of(local=ScriptedProvider(GONE, takes_s=2))
    world.park("run-1")

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(1)
        await world.ports.liveness.beat(AttemptKey(RunId("run-1"), 1))
        await trio.sleep(5)

    assert world.status("run-1") is RunStatus.WAITING
    (report,) = world.passes()
    assert (report["proven"], report["fenced"], report["settled"]) == (1, 1, 0)


async def test_no_scheduler_call_is_open_across_a_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Discovery has returned before any sandbox is read, and nothing is asked meanwhile (I36)."""
    provider = ScriptedProvider(RUNNING, takes_s=5)
    world = world_of(local=provider)
    world.park("run-1")
    during: list[str] = []

    def watch(operation: str) -> None:
        if provider.at_once:
            during.append(operation)

    world.world.watch = watch

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(14)

    assert during == []


async def test_marks_do_not_grow(autojump_clock: trio.testing.MockClock) -> None:
    """After an hour over many runs the map holds what was read in the last minute (I38)."""
    world = world_of(local=ScriptedProvider(RUNNING))
    world.settings = SweepSettings(page=20)
    world.park(*(f"run-{n:03}" for n in range(500)), ceiling=timedelta(hours=6))

    async with sweeping_for(world, world.sweep(SweepMode.OBSERVE)):
        for _ in range(60):
            await trio.sleep(60)
            assert len(world.sweeping.state.next_check_s) <= 20 * 5
