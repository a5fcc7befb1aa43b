"""What comes before the commit of an end, in it and after it, when something fails (C21)."""

import pytest
import trio
import trio.testing

from deepline.adapters.memory.faults import NoFaults
from deepline.adapters.memory.ledger import MemoryLedger
from deepline.adapters.memory.ports import open_ports
from deepline.core.model.attempt import Attempt
from deepline.core.model.claim import Claim
from deepline.core.model.evidence import RunEvidence
from deepline.core.model.identity import RunId
from deepline.core.model.launch import Launch
from deepline.core.model.result import Completed, Failed, RunnerResult
from deepline.core.model.run import RunStatus
from deepline.ports.errors import OutcomeUnknown, Unavailable
from deepline.ports.sheets import RowOutcome
from deepline.runtime.context import key_of
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.outbox_projector import OutboxProjector
from deepline.runtime.stop import Stop
from tests.runtime.faulty import Hanging, Struck, times
from tests.runtime.worlds import InProcessBackend, SmallWorld

AWAY = Unavailable("away")
LOST = OutcomeUnknown("no answer")


def failing_with_rows(world: SmallWorld) -> InProcessBackend:
    """A play that finishes one row of two, and fails."""

    async def play(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        key = key_of(attempt.ref)
        await world.ports.sheets.open_sheet(key, "leads", total=2)
        row = RowOutcome(row_index=0, input_row={}, output=1, error=None)
        await world.ports.sheets.finish_rows(key, "leads", [row])
        return Failed(error="VALUE_ERROR: no")

    return InProcessBackend(play)


async def ended(world: SmallWorld, backend: InProcessBackend, faults: NoFaults) -> RunEvidence:
    """Let one worker with these faults bring r1 to its end, and look at what is durable."""
    stop = Stop()
    await world.submit("r1")
    async with trio.open_nursery() as nursery:
        worker = world.worker(backend, ports=open_ports(world.world, faults))
        await nursery.start(worker.serve, stop)
        await world.until_ended("r1")
        await trio.sleep(1)
        stop.request()
    evidence = await world.ports.runs.evidence(RunId("r1"), None)
    assert evidence is not None
    return evidence


async def test_settled_counts_ride_before_the_failed_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A failed run's counts precede its terminal fact, written in the same commit (C22, I20)."""
    world = SmallWorld()

    evidence = await ended(world, failing_with_rows(world), NoFaults())

    assert [fact.kind for fact in evidence.facts] == [
        "run.created",
        "run.progress_settled",
        "run.failed",
    ]


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(Struck("sheets.settled", times(99, AWAY)), id="C22-3-fails"),
        pytest.param(Hanging("sheets.settled"), id="Q14-hangs"),
    ],
)
async def test_counts_that_cannot_be_read_hold_no_end_up(
    autojump_clock: trio.testing.MockClock, faults: Struck | Hanging
) -> None:
    """Reading the counts is best effort and bounded; the run ends without them."""
    world = SmallWorld()
    began = trio.current_time()

    evidence = await ended(world, failing_with_rows(world), faults)

    assert faults.met
    assert trio.current_time() - began < world.limits.settled_counts_read.total_seconds() + 5
    assert [fact.kind for fact in evidence.facts] == ["run.created", "run.failed"]
    warned = [event.name for event in world.telemetry.events if event.level == "warn"]
    assert warned == ["failed_terminal_settled_counts_failed"]


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(Struck("terminals.commit", times(3, AWAY)), id="away-before"),
        pytest.param(Struck("terminals.commit", [], times(1, LOST)), id="unknown-after"),
        pytest.param(
            Struck("terminals.commit", times(1, AWAY), times(1, LOST)), id="away-then-unknown"
        ),
    ],
)
async def test_an_end_is_committed_once(
    autojump_clock: trio.testing.MockClock, faults: Struck
) -> None:
    """A commit whose answer is lost is asked for again, and found done (I01, I20)."""
    evidence = await ended(SmallWorld(), InProcessBackend(), faults)

    assert faults.spent
    assert evidence.run.status is RunStatus.COMPLETED
    assert [fact.kind for fact in evidence.facts] == ["run.created", "run.completed"]
    assert [one.engine_attempt for one in evidence.attempts] == [1]


@pytest.mark.parametrize(
    "operation", ["receipts.release", "sheets.release", "outbox.lease_run", "terminals.status"]
)
@pytest.mark.parametrize("hangs", [False, True], ids=["fails", "hangs"])
async def test_nothing_after_an_end_changes_it(
    autojump_clock: trio.testing.MockClock, operation: str, hangs: bool
) -> None:
    """Whatever fails or hangs after the commit, the end stands and costs no attempt (I30, C24)."""
    world = SmallWorld()

    def over() -> bool:
        return world.world.runs[RunId("r1")].status.is_terminal

    faults = Hanging(operation, armed=over) if hangs else Struck(operation, times(99, AWAY))
    faults.armed = over

    evidence = await ended(world, failing_with_rows(world), faults)

    assert evidence.run.status is RunStatus.FAILED
    assert [fact.kind for fact in evidence.facts][-1:] == ["run.failed"]
    assert [one.engine_attempt for one in evidence.attempts] == [1]
    assert evidence.engine is None or evidence.engine.state == "completed"
    assert not [event for event in world.telemetry.events if event.name == "claim_work_failed"]


def projector_of(world: SmallWorld, ledger: MemoryLedger) -> OutboxProjector:
    """The durable deliverer."""
    dispatcher = Dispatcher(
        outbox=world.ports.outbox,
        ledger=ledger,
        clock=world.clock,
        telemetry=world.telemetry,
        limits=world.limits,
        owner="projector",
    )
    return OutboxProjector(
        outbox=world.ports.outbox,
        dispatcher=dispatcher,
        telemetry=world.telemetry,
        limits=world.limits,
    )


async def test_what_nobody_dispatched_is_delivered(autojump_clock: trio.testing.MockClock) -> None:
    """An end whose immediate delivery failed is delivered by the projector (C25.8, L05)."""
    world, stop = SmallWorld(), Stop()
    faults = Struck("ledger.deliver", times(2, AWAY))
    faults.armed = lambda: world.world.runs[RunId("r1")].status.is_terminal
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        ledger = MemoryLedger(world.world, faults)
        nursery.start_soon(projector_of(world, ledger).run)
        await nursery.start(world.worker(InProcessBackend(), ledger=ledger).serve, stop)
        await world.until_ended("r1")
        await trio.sleep(60)
        nursery.cancel_scope.cancel()

    assert faults.spent
    evidence = await world.ports.runs.evidence(RunId("r1"), None)
    assert evidence is not None
    assert all(fact.delivered_at is not None for fact in evidence.facts)


def broken_to_the_last() -> InProcessBackend:
    """A backend that fails in every engine attempt."""

    async def play(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        raise RuntimeError("the backend is broken")

    return InProcessBackend(play)


@pytest.mark.parametrize(
    ("faults", "waits_s"),
    [
        pytest.param(Struck("terminals.commit", times(2, AWAY)), 1.25, id="Q13-tries"),
        pytest.param(Struck("terminals.commit", times(4, AWAY)), 5.25 + 30, id="Q13-keeps-it"),
        pytest.param(Struck("terminals.commit", [], times(1, LOST)), 0, id="Q13-unknown"),
    ],
)
async def test_the_last_attempt_writes_its_end(
    autojump_clock: trio.testing.MockClock, faults: Struck, waits_s: float
) -> None:
    """Salvage tries four times, then keeps the attempt for later; it ends the run once (C20)."""
    world = SmallWorld()
    began = trio.current_time()
    plain = await ended(world, broken_to_the_last(), NoFaults())
    took_s = trio.current_time() - began
    world = SmallWorld()
    began = trio.current_time()

    evidence = await ended(world, broken_to_the_last(), faults)

    assert faults.spent
    assert trio.current_time() - began >= took_s + waits_s - 0.2
    assert evidence.run.status is plain.run.status is RunStatus.FAILED
    assert [fact.kind for fact in evidence.facts] == ["run.created", "run.failed"]
    assert evidence.run.why is not None
    assert evidence.run.why.rule.startswith("salvage.")


async def test_a_preparation_that_never_works_ends_its_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A run without a launch spends its attempts and is cancelled, never stranded (C15, L08)."""
    world = SmallWorld()
    backend = InProcessBackend()
    await world.submit("r1")
    del world.world.launches[RunId("r1")]
    stop = Stop()

    async with trio.open_nursery() as nursery:
        await nursery.start(world.worker(backend).serve, stop)
        (run,) = await world.until_ended("r1")
        stop.request()

    assert run.status is RunStatus.CANCELLED
    assert run.attempt == 0
    assert not backend.executed
    told = [event.fields for event in world.telemetry.events if "preparation" in event.name]
    assert [fields["cancelled"] for fields in told] == [True]


async def test_an_end_of_another_hand_is_accounted_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Work that comes too late writes nothing, and asks only for what an ended run needs (C27)."""
    world = SmallWorld()

    async def slow(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        with trio.move_on_after(5, shield=True):
            await trio.sleep(1)
            await world.cancel(launch.run_id)
        return Completed(output="too late")

    evidence = await ended(world, InProcessBackend(slow), NoFaults())

    assert evidence.run.status is RunStatus.CANCELLED
    assert [fact.kind for fact in evidence.facts] == ["run.created", "run.cancelled"]
