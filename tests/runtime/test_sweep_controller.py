"""The sweep as a controller: ticks, hard stops, failures, stopping, and its size (C43, C04)."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import trio
import trio.testing

from deepline.core.model.result import Completed
from deepline.core.model.run import RunStatus
from deepline.core.sweep import SweepMode
from deepline.ports.errors import Unavailable
from deepline.runtime.stop import Stop
from tests.runtime.sweep_worlds import (
    FOREVER,
    GONE,
    RUNNING,
    ScriptedProvider,
    StallingStore,
    SweepWorld,
    sweeping_for,
)

DONE = Completed(output=1)
ROOT = Path(__file__).resolve().parents[2]


def world_of(**providers: ScriptedProvider) -> SweepWorld:
    """A world with these providers."""
    return SweepWorld(providers=providers)


async def test_passes_begin_an_interval_apart(autojump_clock: trio.testing.MockClock) -> None:
    """However long each takes, and the last success is known from memory (C58)."""
    world = world_of(local=ScriptedProvider(RUNNING, takes_s=8))
    world.park("run-1")
    sweep = world.sweep()

    async with sweeping_for(world, sweep):
        await trio.sleep(40)
        assert sweep.last_success_at == world.clock.epoch + timedelta(seconds=30)
        assert sweep.blind_providers == ()

    assert len(world.passes()) == 3
    assert world.telemetry.observations["sweep_pass_s"] == [8.0, 0.0, 0.0]


async def test_each_number_becomes_a_metric(autojump_clock: trio.testing.MockClock) -> None:
    """By the names of the report, and blind providers by theirs."""
    world = world_of(local=ScriptedProvider(GONE), modal=ScriptedProvider(takes_s=FOREVER))
    world.park("run-1", "run-2")
    world.park("run-3", provider="modal")
    sweep = world.sweep()

    async with sweeping_for(world, sweep):
        await trio.sleep(14)
        assert sweep.blind_providers == ("modal",)

    counts = world.telemetry.counts
    assert counts["sweep_outcomes{outcome=settled}"] == 2
    assert counts["sweep_outcomes{outcome=unreadable}"] == 1
    assert counts["sweep_blind_passes{provider=modal}"] == 1


async def test_a_failed_discovery_is_said_and_the_loop_lives_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nothing else was begun by that pass (C39.3, C43.1)."""
    store = StallingStore(failing={"liveness_work.find": Unavailable("the database is away")})
    world = world_of(local=ScriptedProvider(GONE))
    world.park("run-1")
    sweep = world.sweep(faults=store)

    async with sweeping_for(world, sweep):
        await trio.sleep(16)
        assert sweep.last_success_at is None
        store.failing.clear()
        await trio.sleep(15)

    failed = world.telemetry.named("detached_runner_liveness_pass_failed")
    assert [one.fields["error"] for one in failed] == ["the database is away"] * 2
    assert world.telemetry.counts["sweep_passes_failed"] == 2
    assert world.status("run-1") is RunStatus.FAILED


async def test_a_stuck_store_is_given_up_at_the_hard_stop(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A pass whose discovery never answers ends before the next begins (C39, I33)."""
    store = StallingStore(stalled={"liveness_work.find"})
    world = world_of(local=ScriptedProvider(GONE))
    world.park("run-1")

    async with sweeping_for(world, world.sweep(faults=store)):
        await trio.sleep(11.9)
        assert world.telemetry.events == []
        await trio.sleep(0.2)
        (failed,) = world.telemetry.named("detached_runner_liveness_pass_failed")
        assert failed.fields["error"] == "the pass was given up at its hard stop"
        store.let_go()
        await trio.sleep(4)

    assert world.status("run-1") is RunStatus.FAILED
    assert len(world.passes()) == 1


async def test_a_discovery_that_takes_the_budget_begins_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Between budget and hard stop a pass may only report (A16, Q45)."""
    store = StallingStore(stalled={"liveness_work.find"})
    provider = ScriptedProvider(GONE)
    world = world_of(local=provider)
    world.park("run-1")
    world.park("run-2", terminal=DONE)

    async with sweeping_for(world, world.sweep(faults=store)):
        await trio.sleep(11)
        store.let_go()
        await trio.sleep(1)

    (report,) = world.passes()
    assert report["budgetExhausted"] is True
    assert (report["stale"], report["inspected"], report["recorded"]) == (1, 0, 0)
    assert provider.asked == []


async def test_stopping_lets_writes_end_and_cuts_reads(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What is decided is committed, what is only looked at is dropped (C04.4)."""
    store = StallingStore(stalled={"terminals.commit"})
    world = world_of(local=ScriptedProvider(GONE), modal=ScriptedProvider(takes_s=FOREVER))
    world.park("run-1")
    world.park("run-2", provider="modal")
    stop, sweep = Stop(), world.sweep(faults=store)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sweep.run, stop)
        await trio.sleep(11)
        stop.request()
        await trio.sleep(10)
        assert world.status("run-1") is RunStatus.WAITING
        store.let_go()

    assert world.status("run-1") is RunStatus.FAILED
    assert trio.current_time() == 21
    assert world.sweeping.state.reads_of("modal").in_flight == 0
    assert len(world.passes()) == 1


async def test_stopping_between_passes_is_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """The wait for the next pass ends when asked."""
    world, stop = world_of(local=ScriptedProvider(RUNNING)), Stop()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.sweep().run, stop)
        await trio.sleep(3)
        stop.request()

    assert trio.current_time() == 3


async def test_sandboxes_of_providers_without_an_inspector_are_left(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nobody here can look at them, and recorded terminals are settled all the same."""
    world = world_of()
    world.park("run-1")
    world.park("run-2", terminal=DONE)

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(1)

    assert world.status("run-1") is RunStatus.WAITING
    assert world.status("run-2") is RunStatus.COMPLETED


@pytest.mark.parametrize("mode", [SweepMode.OBSERVE, SweepMode.ENFORCE])
async def test_a_cancelled_sweep_leaves_the_store_whole(
    mode: SweepMode, autojump_clock: trio.testing.MockClock
) -> None:
    """Cut at any moment, a run is either as it was or ended once (I01)."""
    for cut_after_s in (0.0, 0.05, 0.1, 0.15, 5.0):
        world = world_of(local=ScriptedProvider(GONE))
        world.park("run-1", "run-2")
        async with sweeping_for(world, world.sweep(mode)):
            await trio.sleep(cut_after_s)
        facts = [len(rows) for rows in world.world.outbox.values()]
        ended = [run for run in world.world.runs.values() if run.ended]
        assert facts == [1] * len(ended)


@pytest.mark.slow
@pytest.mark.processes
def test_ten_thousand_stale_runs_fit_a_small_process() -> None:
    """With a slow, a hung and a dead provider each pass keeps its budget, under 256 MiB."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.runtime.sweep_at_size"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert finished.returncode == 0, finished.stderr
    assert "ok" in finished.stdout
