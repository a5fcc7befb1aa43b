"""Places for runs: worked on at most so many, ending at most as many again (C12)."""

from datetime import UTC, datetime

import trio
import trio.testing

from deepline.adapters.memory.faults import NoFaults
from deepline.adapters.memory.ports import open_ports
from deepline.core.model.attempt import Attempt
from deepline.core.model.claim import Claim
from deepline.core.model.identity import Lane, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.result import Completed, RunnerResult
from deepline.runtime.slots import Slots
from deepline.runtime.stop import Stop
from tests.runtime.worlds import InProcessBackend, SmallWorld

SLOTS = 3


def claim_of(number: int) -> Claim:
    """A claim of a run."""
    return Claim(
        run_id=RunId(f"run-{number}"),
        lane=Lane("runs"),
        task_id=f"task-{number}",
        engine_run_id=f"engine-{number}",
        owner="owner",
        engine_attempt=1,
        max_engine_attempts=5,
        claimed_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_a_run_about_to_end_passes_its_place_on() -> None:
    """Its place is free at once, and once only; it stays in hand until it leaves."""
    slots = Slots(SLOTS)
    for number in range(SLOTS):
        slots.take(claim_of(number))
    assert slots.free == 0

    slots.pass_on(claim_of(0))
    slots.pass_on(claim_of(0))
    assert (slots.free, slots.in_hand) == (1, SLOTS)

    slots.leave(claim_of(0))
    slots.leave(claim_of(1))
    assert (slots.free, slots.in_hand) == (2, 1)


def test_a_slow_store_is_not_given_more_and_more_to_finish() -> None:
    """With as many runs ending as there are places, each further one keeps its place taken."""
    slots = Slots(SLOTS)
    for number in range(2 * SLOTS):
        slots.take(claim_of(number))
        slots.pass_on(claim_of(number))
        assert slots.free == min(SLOTS, 2 * SLOTS - number - 1)

    assert slots.free == 0
    slots.leave(claim_of(0))
    assert slots.free == 1


def test_a_claim_that_never_had_a_place_passes_none_on() -> None:
    """Only places that were taken can become free."""
    slots = Slots(SLOTS)

    slots.pass_on(claim_of(0))
    slots.leave(claim_of(0))

    assert (slots.free, slots.in_hand) == (SLOTS, 0)


class HeldCommits(NoFaults):
    """A store that answers no commit until it is let go."""

    def __init__(self) -> None:
        self.released = trio.Event()

    async def before(self, operation: str) -> None:
        """Hold up commits."""
        if operation == "terminals.commit":
            await self.released.wait()


async def test_claiming_goes_on_while_ends_are_committed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A worker works on as many runs as it has slots while as many again wait for their commit."""
    world, stop, store = SmallWorld(), Stop(), HeldCommits()
    world.ports = open_ports(world.world, faults=store)
    executing = most = 0

    async def play(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        nonlocal executing, most
        executing += 1
        most = max(most, executing)
        await trio.sleep(1)
        executing -= 1
        return Completed(output=None)

    backend, names = InProcessBackend(play), [f"r{number}" for number in range(4 * SLOTS)]
    await world.submit(*names)
    async with trio.open_nursery() as nursery:
        worker = world.worker(backend, slots=SLOTS)
        await nursery.start(worker.serve, stop)
        await trio.sleep(20)
        assert len(backend.executed) == 2 * SLOTS
        assert worker.running == 2 * SLOTS

        store.released.set()
        await world.until_ended(*names)
        stop.request()

    assert most == SLOTS
    assert sorted(backend.executed) == sorted(names)
    assert worker.running == 0
