"""Verdicts and settlements that outlast their pass, one at a time (C41, C42, A22, A34, L09)."""

from datetime import timedelta

import attrs
import pytest
import trio
import trio.testing

from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.result import Completed, Failed
from deepline.core.model.run import RunStatus
from deepline.core.sweep import SweepMode
from deepline.ports.errors import Unavailable
from deepline.runtime.dispatcher import Dispatcher
from tests.runtime.sweep_worlds import (
    GONE,
    RUNNING,
    ScriptedProvider,
    StallingStore,
    SweepWorld,
    sweeping_for,
)

DONE = Completed(output="done")
AWAY = Unavailable("the database is away")
CANARY = PlacementPolicy(
    policy_id="modal",
    backend="modal",
    cleanup_providers=("modal",),
    canary_provider="modal",
    canary_basis_points=10_000,
)


def world_of(**providers: ScriptedProvider) -> SweepWorld:
    """A world with these providers, by default one whose sandboxes are all gone."""
    return SweepWorld(providers=providers or {"local": ScriptedProvider(GONE)})


def counted(world: SweepWorld, *names: str) -> list[tuple[object, ...]]:
    """These numbers of each pass so far."""
    return [tuple(report[name] for name in names) for report in world.passes()]


def dispatcher_of(world: SweepWorld) -> Dispatcher:
    """One that delivers to the world's ledger."""
    return Dispatcher(
        outbox=world.ports.outbox,
        ledger=world.ledger,
        clock=world.clock,
        telemetry=world.telemetry,
        limits=world.limits,
        owner="sweep",
    )


async def test_recorded_terminals_are_settled(autojump_clock: trio.testing.MockClock) -> None:
    """A terminal whose worker died is settled without one, within a pass (C35, L02)."""
    world = world_of(local=ScriptedProvider(RUNNING))
    world.park("run-1", terminal=DONE)
    world.park("run-2", terminal=Failed(error="PLAY: no"))

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(1)

    assert [world.status(run) for run in ("run-1", "run-2")] == ["completed", "failed"]
    assert counted(world, "recorded", "settled", "stale") == [(2, 2, 0)]
    why = world.world.runs[RunId("run-1")].why
    assert why is not None
    assert why.rule == "recovery.runner_terminal"


async def test_a_settlement_reads_what_is_stored(autojump_clock: trio.testing.MockClock) -> None:
    """Whatever was in hand, the run ends with the terminal on its attempt (C42.2)."""
    world, store = world_of(), StallingStore(stalled={"attempts.read"})
    world.park("run-1")

    async with sweeping_for(world, world.sweep(faults=store)):
        await trio.sleep(1)
        row = world.world.attempts[AttemptKey(RunId("run-1"), 1)]
        assert isinstance(row.runner_terminal, Failed)
        row.runner_terminal = DONE
        store.let_go()
        await trio.sleep(1)

    assert world.status("run-1") is RunStatus.COMPLETED


async def test_a_verdict_that_overruns_is_settled_by_the_next_pass(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its write is left alone; late it is reported and not counted (C41.4, A19)."""
    world, store = world_of(), StallingStore(stalled={"liveness_work.record_verdict"})
    world.park("run-1")

    async with sweeping_for(world, world.sweep(faults=store)):
        await trio.sleep(12)
        assert world.names() == ["verdict_overran", "pass"]
        store.let_go()
        await trio.sleep(1)
        assert world.names()[2:] == ["expired"]
        assert world.status("run-1") is RunStatus.WAITING
        await trio.sleep(4)

    assert world.status("run-1") is RunStatus.FAILED
    assert counted(world, "proven", "recorded", "settled", "fenced", "settlementFailed") == [
        (1, 0, 0, 0, 0),
        (0, 1, 1, 0, 0),
    ]


async def test_a_late_refusal_is_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """A beat came while the write was stuck: nothing is said and nothing counted (C41.4)."""
    world, store = world_of(), StallingStore(stalled={"liveness_work.record_verdict"})
    world.park("run-1")

    async with sweeping_for(world, world.sweep(faults=store)):
        await trio.sleep(12)
        await world.ports.liveness.beat(AttemptKey(RunId("run-1"), 1))
        store.let_go()
        await trio.sleep(10)

    assert world.names() == ["verdict_overran", "pass", "pass"]
    assert world.status("run-1") is RunStatus.WAITING


@pytest.mark.parametrize("late", [False, True])
async def test_a_failed_verdict_is_said(late: bool, autojump_clock: trio.testing.MockClock) -> None:
    """In time it counts as a failed settlement; late it is only said; a later pass tries again."""
    failing = {"liveness_work.record_verdict": AWAY}
    world, store = world_of(), StallingStore(failing=dict(failing))
    if late:
        store.stalled.update(failing)
    world.park("run-1")

    async with sweeping_for(world, world.sweep(faults=store)):
        await trio.sleep(12)
        store.let_go()
        await trio.sleep(1)
        (said,) = world.telemetry.named("detached_runner_liveness_verdict_failed")
        assert said.fields == {
            "runId": "run-1",
            "attempt": 1,
            "afterPass": late,
            "error": "the database is away",
        }
        assert counted(world, "settlementFailed") == [(0 if late else 1,)]
        store.failing.clear()
        await trio.sleep(75)

    assert world.status("run-1") is RunStatus.FAILED


async def test_a_stalled_settlement_is_one_and_not_one_a_pass(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It keeps the turn through every later pass, and all go on when it ends (I32, I33, L09)."""
    world, store = world_of(), StallingStore(stalled={"terminals.commit"})
    world.park(*(f"run-{n}" for n in range(5)))

    async with sweeping_for(world, world.sweep(faults=store)):
        await trio.sleep(59)
        assert store.began.count("terminals.commit") == 1
        assert world.is_settling()
        names = world.names()
        assert names.count("settlement_overran") == 1
        assert names.count("settlement_deferred") >= 3
        assert sum(int(str(report["settled"])) for report in world.passes()) == 0
        store.let_go()
        await trio.sleep(16)
        assert not world.is_settling()

    assert all(world.status(f"run-{n}") is RunStatus.FAILED for n in range(5))
    assert sum(int(str(report["settled"])) for report in world.passes()) == 4


async def test_what_waits_behind_a_stalled_settlement_never_starts_late(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its pass being over, a queued settlement is left to the next one, in silence (I33)."""
    world, store = world_of(), StallingStore(stalled={"terminals.commit"})
    world.park("run-1", "run-2", "run-3", terminal=DONE)
    world.park("run-4", "run-5")

    async with sweeping_for(world, world.sweep(faults=store)):
        await trio.sleep(10.5)
        store.let_go()
        await trio.sleep(4)
        assert store.began.count("terminals.commit") == 1
        assert "settlement_deferred" not in world.names()
        await trio.sleep(2)

    assert {world.status(f"run-{n}") for n in range(1, 6)} == {"completed", "failed"}


async def test_a_late_settlement_is_followed_up(autojump_clock: trio.testing.MockClock) -> None:
    """What its terminal is owed is done when it ends, and no number changes (C42.3)."""
    world, store = world_of(), StallingStore(stalled={"terminals.commit"})
    world.park("run-1")

    async with sweeping_for(world, world.sweep(faults=store)):
        await trio.sleep(12)
        assert "receipts.release" not in store.began
        store.let_go()
        await trio.sleep(1)
        assert store.began.count("receipts.release") == 1
        assert world.status("run-1") is RunStatus.FAILED

    assert counted(world, "proven", "settled", "fenced") == [(1, 0, 0)]


@pytest.mark.parametrize("late", [False, True])
async def test_a_failed_settlement_is_said_and_retried(
    late: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """It breaks no chain: the next terminal is settled, and this one by the next pass (C42.4)."""
    store = StallingStore(failing={"terminals.commit": AWAY})
    if late:
        store.stalled.add("terminals.commit")
    world = world_of(local=ScriptedProvider(RUNNING))
    world.park("run-1", "run-2", terminal=DONE)

    async with sweeping_for(world, world.sweep(faults=store)):
        await trio.sleep(12)
        store.let_go()
        await trio.sleep(1)
        said = world.telemetry.named("detached_runner_liveness_settlement_failed")
        assert {one.fields["afterPass"] for one in said} == {late}
        assert len(said) == (1 if late else 2)
        assert counted(world, "settlementFailed") == [(0 if late else 2,)]
        store.failing.clear()
        await trio.sleep(20)

    assert [world.status(run) for run in ("run-1", "run-2")] == ["completed", "completed"]


async def test_another_hand_may_be_faster(autojump_clock: trio.testing.MockClock) -> None:
    """Settled between verdict and settlement the run keeps its end, and is followed up (C42)."""
    world, store = world_of(), StallingStore(stalled={"terminals.commit"})
    world.park("run-1")

    async with sweeping_for(world, world.sweep(faults=store)):
        await trio.sleep(1)
        row = world.world.attempts[AttemptKey(RunId("run-1"), 1)]
        await world.cancel("run-1")
        assert row.runner_terminal is not None
        store.let_go()
        await trio.sleep(1)

    assert world.status("run-1") is RunStatus.CANCELLED
    assert counted(world, "settled", "fenced") == [(0, 1)]
    assert "receipts.release" not in store.began, "a cancelled run released nothing"


async def test_a_run_is_settled_once_in_a_pass(autojump_clock: trio.testing.MockClock) -> None:
    """Found recorded and settled twice in one pass, the second finds it ended (A34)."""
    world = world_of()
    world.park("run-1", terminal=DONE)
    world.found_twice = True

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(1)

    assert counted(world, "recorded", "settled", "fenced") == [(2, 1, 1)]

    facts = [row.fact.event_id for row in world.world.outbox[RunId("run-1")]]
    assert facts == ["run-terminal:run-1"]


async def test_observing_settles_no_recorded_terminal(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Neither settled nor counted, while everything else works as in enforcing (A18)."""
    world = world_of(local=ScriptedProvider(GONE))
    world.park("run-1", terminal=DONE)
    world.park("run-2")

    async with sweeping_for(world, world.sweep(SweepMode.OBSERVE)):
        await trio.sleep(20)

    assert world.status("run-1") is RunStatus.WAITING
    assert counted(world, "recorded", "stale", "proven") == [(0, 1, 1), (0, 1, 0)]
    assert AttemptKey(RunId("run-2"), 1) in world.sweeping.state.next_check_s


async def test_a_terminal_that_cannot_be_settled_stops_no_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Without a launch there is nothing to settle by: it is skipped, said, and counts nothing."""
    world = world_of(local=ScriptedProvider(RUNNING))
    world.park("run-1", "run-2", terminal=DONE)
    del world.world.launches[RunId("run-1")]

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(1)

    assert world.status("run-2") is RunStatus.COMPLETED
    assert counted(world, "recorded", "settled", "settlementFailed") == [(2, 1, 0)]
    (said,) = world.telemetry.named("recovered_terminal_skipped")
    assert said.fields["runId"] == "run-1"


async def test_a_terminal_is_delivered_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """The sweep projects what it settles itself, inside its budget (C35.10, C36)."""
    world = world_of()
    world.park("run-1")

    async with sweeping_for(world, world.sweep(dispatcher=dispatcher_of(world))):
        await trio.sleep(1)

    assert world.world.outbox[RunId("run-1")][0].delivered_at is not None


async def test_one_projection_at_a_time(autojump_clock: trio.testing.MockClock) -> None:
    """While one is stuck others are left to the projector, and later passes project (I32, A22)."""
    world, store = world_of(), StallingStore(stalled={"outbox.lease_run"})
    world.park("run-1", "run-2", "run-3")
    dispatcher = attrs.evolve(
        dispatcher_of(world), outbox=attrs.evolve(world.ports.outbox, faults=store)
    )

    async with sweeping_for(world, world.sweep(dispatcher=dispatcher)):
        await trio.sleep(9)
        assert store.began.count("outbox.lease_run") == 1
        assert world.names().count("projection_skipped") == 2
        await trio.sleep(5)
        assert not world.sweeping.state.projecting, "the budget ends a projection"
        store.let_go()
        world.park("run-4")
        await trio.sleep(2)

    assert [world.status(f"run-{n}") for n in range(1, 5)] == ["failed"] * 4
    assert world.world.outbox[RunId("run-4")][0].delivered_at is not None


async def test_a_stuck_release_slows_its_own_lane(autojump_clock: trio.testing.MockClock) -> None:
    """What follows a terminal is waited for until the budget, and never undoes it (A23)."""
    modal = ScriptedProvider(GONE)
    world, store = world_of(local=ScriptedProvider(GONE), modal=modal), StallingStore()
    store.stalled.add("sheets.release")
    world.park(*(f"run-{n}" for n in range(8)))

    async with sweeping_for(world, world.sweep(faults=store)):
        await trio.sleep(9)
        assert [world.status(f"run-{n}") for n in range(3)] == ["failed"] * 3
        assert world.status("run-7") is RunStatus.WAITING
        await trio.sleep(60)

    assert all(world.status(f"run-{n}") is RunStatus.FAILED for n in range(8))


async def test_a_canary_s_end_is_reported(autojump_clock: trio.testing.MockClock) -> None:
    """Once, after the terminal, for a run of the canary provider (C45)."""
    world = world_of(modal=ScriptedProvider(GONE))
    world.policies, world.production = (CANARY,), True
    world.park("run-1", provider="modal")
    launch = world.world.launches[RunId("run-1")]
    world.world.launches[RunId("run-1")] = attrs.evolve(
        launch, launch=attrs.evolve(launch.launch, placement_policy_id="modal")
    )

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(1)

    (report,) = world.telemetry.named("sandbox_provider_canary")
    assert report.fields["outcome"] == "failed"
    assert report.fields["providerHealthFailure"] is True


async def test_another_attempt_s_suspension_says_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Only the attempt's own runner may give a canary or a diagnostic (C35.2, I49)."""
    world = world_of(modal=ScriptedProvider(RUNNING))
    world.policies, world.production = (CANARY,), True
    world.park("run-1", provider="modal", terminal=Failed(error="RUNTIME_RUNNER_LOST: x"))
    row = world.world.attempts[AttemptKey(RunId("run-1"), 1)]
    assert row.suspension is not None
    row.suspension = attrs.evolve(row.suspension, runner_attempt=7)

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(1)

    assert world.status("run-1") is RunStatus.FAILED
    assert world.telemetry.named("sandbox_provider_canary") == []


async def test_failed_runs_tell_their_counts_first(autojump_clock: trio.testing.MockClock) -> None:
    """The sheets' counts ride ahead of the terminal, and a stuck read costs only them (C22)."""
    world, store = world_of(), StallingStore(stalled={"sheets.namespaces"})
    world.park("run-1")

    async with sweeping_for(world, world.sweep(faults=store)):
        await trio.sleep(6)

    assert world.status("run-1") is RunStatus.FAILED
    assert len(world.telemetry.named("failed_terminal_settled_counts_failed")) == 1


async def test_ending_a_run_this_way_ends_its_engine_task(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """No worker is sent after a run that the sweep ended (C65)."""
    world = world_of()
    world.park("run-1")
    operations: list[str] = []
    world.world.watch = operations.append

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(1)

    assert "attempts.claim" not in operations
    assert world.world.queue.tasks == {}


async def test_the_age_in_a_verdict_is_by_the_store_s_clock(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A sweep whose own clock is wrong says the right age (Q50, F43)."""
    world = world_of(local=ScriptedProvider(GONE, takes_s=5))
    world.clock = attrs.evolve(world.clock, epoch=world.clock.epoch + timedelta(days=3))
    world.park("run-1")
    await world.ports.liveness.beat(AttemptKey(RunId("run-1"), 1))
    await trio.sleep(70)

    async with sweeping_for(world, world.sweep()):
        await trio.sleep(6)

    (expired,) = world.telemetry.named("detached_runner_liveness_expired")
    assert expired.fields["heartbeatAgeMs"] == 75_000
