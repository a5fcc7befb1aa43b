"""Claims: created facts, placement, lost leases, stopping, and the last engine attempt."""

from datetime import timedelta

import attrs
import pytest
import trio
import trio.testing

from deepline.core.model.attempt import Attempt
from deepline.core.model.claim import Claim
from deepline.core.model.identity import RunId
from deepline.core.model.launch import Launch
from deepline.core.model.result import Completed, Failed, RunnerResult
from deepline.core.model.run import RunStatus
from deepline.ports.errors import CapacityExceeded, PreCodeUnavailable, Unavailable
from deepline.runtime.stop import Stop
from deepline.runtime.worker import BadConfiguration, WorkerSettings
from tests.runtime.worlds import InProcessBackend, SmallWorld, launch_of, submission_of


async def serve_until_ended(world: SmallWorld, backend: InProcessBackend, *runs: str) -> RunStatus:
    """Serve until all runs have ended; answers how the first one did."""
    stop = Stop()
    async with trio.open_nursery() as nursery:
        await nursery.start(world.worker(backend).serve, stop)
        first, *_ = await world.until_ended(*runs)
        stop.request()
    return first.status


async def test_a_ledger_away_holds_a_run_back(autojump_clock: trio.testing.MockClock) -> None:
    """No attempt starts before the created fact is acknowledged; waiting is free (C13, I51)."""
    world, backend = SmallWorld(), InProcessBackend()
    world.ledger.script.extend(Unavailable("away") for _ in range(3))
    await world.submit("r1")

    assert await serve_until_ended(world, backend, "r1") is RunStatus.COMPLETED

    evidence = await world.ports.runs.evidence(RunId("r1"), None)
    assert evidence is not None
    assert backend.executed == ["r1"]
    assert [one.engine_attempt for one in evidence.attempts] == [1]
    assert evidence.run.created_projected_at is not None
    assert evidence.run.created_projected_at <= evidence.attempts[0].created_at


async def test_a_run_of_another_policy_waits(autojump_clock: trio.testing.MockClock) -> None:
    """A worker never executes what it cannot place, and spends nothing on it (C14, I52)."""
    world, backend, stop = SmallWorld(), InProcessBackend(), Stop()
    launch = attrs.evolve(launch_of("r1"), placement_policy_id="modal")
    await world.ports.admission.ensure_lane(submission_of(launch, world.limits).lane, None)
    await world.ports.admission.submit([submission_of(launch, world.limits)])

    async with trio.open_nursery() as nursery:
        await nursery.start(world.worker(backend).serve, stop)
        await trio.sleep(300)
        stop.request()

    run = await world.run("r1")
    assert run.status is RunStatus.QUEUED
    assert backend.executed == []
    evidence = await world.ports.runs.evidence(RunId("r1"), None)
    assert evidence is not None
    assert {one.why.rule for one in evidence.decisions} == {"placement.policy_not_runnable"}
    assert evidence.engine is not None
    assert evidence.engine.attempt == 1


async def test_errors_spend_attempts_until_the_last_salvages(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """An ordinary error is tried again; the last engine attempt writes the failure (C20)."""

    async def broken(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        raise RuntimeError("the backend is broken")

    world, backend = SmallWorld(), InProcessBackend(broken)
    await world.submit("r1")

    assert await serve_until_ended(world, backend, "r1") is RunStatus.FAILED

    outcome = await world.ports.runs.read(RunId("r1"), None)
    assert outcome is not None
    assert isinstance(outcome.result, Failed)
    assert "final engine attempt (5/5)" in outcome.result.error
    assert "the backend is broken" in outcome.result.error
    assert len(backend.executed) == 5


async def test_a_play_that_fails_is_an_end(autojump_clock: trio.testing.MockClock) -> None:
    """A failed result is committed at once; the engine attempt is not a failure (C21)."""

    async def failing(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        return Failed(error="VALUE_ERROR: no rows")

    world, backend = SmallWorld(), InProcessBackend(failing)
    await world.submit("r1")

    assert await serve_until_ended(world, backend, "r1") is RunStatus.FAILED
    assert backend.executed == ["r1"]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(CapacityExceeded("full", timedelta(seconds=2), "pool"), id="C54-capacity"),
        pytest.param(PreCodeUnavailable("sandbox_acquisition", "quota"), id="C53-pre-code"),
    ],
)
async def test_waiting_for_room_spends_nothing(
    error: Exception, autojump_clock: trio.testing.MockClock
) -> None:
    """Capacity and pre-code failures retire the attempt, not the engine's (C53, C54, I15)."""
    left = [error] * 3

    async def crowded(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        if left:
            raise left.pop()
        return Completed(output="in")

    world, backend = SmallWorld(), InProcessBackend(crowded)
    await world.submit("r1")

    assert await serve_until_ended(world, backend, "r1") is RunStatus.COMPLETED

    evidence = await world.ports.runs.evidence(RunId("r1"), None)
    assert evidence is not None
    assert [one.engine_attempt for one in evidence.attempts] == [1, 1, 1, 1]


async def test_a_pre_code_outage_ends_at_its_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A dependency that stays away is an ordinary failure after ten minutes (C53)."""

    async def away(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        raise PreCodeUnavailable("sandbox_acquisition", "quota")

    world, backend = SmallWorld(), InProcessBackend(away)
    await world.submit("r1")
    began = trio.current_time()

    assert await serve_until_ended(world, backend, "r1") is RunStatus.FAILED
    assert 600 <= trio.current_time() - began < 900


async def test_a_lost_lease_cuts_the_work(autojump_clock: trio.testing.MockClock) -> None:
    """A worker whose extensions fail stops working before its lease is over (F41, L09)."""
    world, stop, cut = SmallWorld(), Stop(), trio.Event()

    async def long(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        try:
            await trio.sleep_forever()
        finally:
            cut.set()

    backend = InProcessBackend(long)
    await world.submit("r1")
    worker = world.worker(backend)

    async def unreachable(*_: object) -> list[Claim]:
        raise Unavailable("away")

    async with trio.open_nursery() as nursery:
        await nursery.start(worker.serve, stop)
        while not backend.executed:
            await trio.sleep(0.1)
        began = trio.current_time()
        object.__setattr__(world.ports.engine, "extend", unreachable)
        await cut.wait()
        took_s = trio.current_time() - began
        while not world.telemetry.named("run_cut"):
            await trio.sleep(0.1)
        nursery.cancel_scope.cancel()

    assert took_s < world.limits.claim_lease.total_seconds()
    (event,) = world.telemetry.named("run_cut")
    assert event.fields["reason"] == "lease lost"


async def test_long_work_keeps_its_lease(autojump_clock: trio.testing.MockClock) -> None:
    """Work longer than many leases is executed once, its lease extended all along (F29, F31)."""

    async def long(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        await trio.sleep(3_600)
        return Completed(output="slow")

    world, backend = SmallWorld(), InProcessBackend(long)
    await world.submit("r1")

    assert await serve_until_ended(world, backend, "r1") is RunStatus.COMPLETED
    assert backend.executed == ["r1"]


async def test_a_cancel_ends_the_work_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """Cancelling a run cuts its work by the hint, and the run stays cancelled (C09, I01)."""
    world, stop = SmallWorld(), Stop()

    async def long(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        await trio.sleep_forever()

    backend = InProcessBackend(long)
    await world.submit("r1")
    async with trio.open_nursery() as nursery:
        worker = world.worker(backend)
        await nursery.start(worker.serve, stop)
        while not backend.executed:
            await trio.sleep(0.1)
        began = trio.current_time()
        await world.cancel("r1")
        while worker.running:
            await trio.sleep(0.01)
        assert trio.current_time() - began < 1
        stop.request()

    assert (await world.run("r1")).status is RunStatus.CANCELLED
    assert backend.executed == ["r1"]


async def test_stopping_drains_and_hands_over(autojump_clock: trio.testing.MockClock) -> None:
    """A stop lets quick runs end, cuts the others at the drain limit and hands over (F04)."""
    world, stop = SmallWorld(), Stop()

    async def play(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        await trio.sleep(5 if launch.run_id == "quick" else 10_000)
        return Completed(output="done")

    backend = InProcessBackend(play)
    await world.submit("quick", "slow")
    async with trio.open_nursery() as nursery:
        await nursery.start(world.worker(backend).serve, stop)
        while len(backend.executed) < 2:
            await trio.sleep(0.1)
        stop.request()
        await world.submit("late")
        began = trio.current_time()

    assert trio.current_time() - began <= world.limits.drain.total_seconds() + 1
    assert (await world.run("quick")).status is RunStatus.COMPLETED
    assert (await world.run("slow")).status is RunStatus.QUEUED
    assert (await world.run("late")).status is RunStatus.QUEUED
    evidence = await world.ports.runs.evidence(RunId("slow"), None)
    assert evidence is not None
    assert [one.ended_reason for one in evidence.attempts] == ["handed_over"]
    assert evidence.engine is not None
    assert evidence.engine.attempt == 1


def test_settings_that_cannot_work_are_refused() -> None:
    """Every reason is named at once (DESIGN: refused at start, F33)."""
    settings = WorkerSettings(
        name=" ", slots=0, limits=attrs.evolve(SmallWorld().limits, heartbeat_divisor=2)
    )

    with pytest.raises(BadConfiguration) as caught:
        settings.check()

    assert str(caught.value).count(";") == 2
