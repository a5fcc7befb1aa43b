"""Cancelling with providers at hand: one commit, and deletes beside it (C09, C10, A1, I12)."""

import contextlib

import attrs
import pytest
import trio
import trio.testing

from deepline.adapters.memory.faults import NoFaults
from deepline.core.model.run import RunStatus
from deepline.ports.errors import OutcomeUnknown, PortError, Unavailable
from deepline.ports.terminals import Cancelled, NotCancelled
from deepline.testing import FaultyProvider, Side
from tests.runtime.cancel_worlds import RUN, SLOWLY, CancelWorld, cancelled
from tests.runtime.faulty import Hanging, Struck
from tests.support.sandbox_crashes import CrashPoint, Life, both_sides, settled


async def test_a_cancel_deletes_without_any_worker(autojump_clock: trio.testing.MockClock) -> None:
    """The delete is accepted when the cancel returns; workers only see that it is done (C51)."""
    world = CancelWorld(life=SLOWLY)
    await world.parked_alone()

    outcome = await cancelled(world.canceller())

    assert outcome == Cancelled(had_attempt=True)
    assert world.delete_asked
    assert world.kinds() == ["provider_delete_started", "provider_delete_accepted"]
    (use,) = world.world.usage[RUN]
    (job,) = world.world.open_cleanup.values()
    assert use.ended_at is not None
    assert (job.owner, job.failure_count) == (None, 0)
    assert world.warnings() == []
    (told,) = world.telemetry.named("cancel_cleanup_routed")
    assert (told.fields["direct"], told.fields["workerOwned"]) == (1, 0)
    await world.finish()
    assert world.world.open_cleanup == {}
    assert world.kinds().count("provider_delete_accepted") == 1
    assert world.billing_problems("r1") == []


BEFORE_THE_COMMIT = [
    *both_sides("sandboxes.resources"),
    CrashPoint("terminals.cancel", Side.BEFORE),
]
BEHIND_IT = [
    CrashPoint("terminals.cancel", Side.AFTER),
    *both_sides("cleanup.claim_sandboxes", "cleanup.record_event", "provider.delete"),
    CrashPoint("cleanup.record_event", Side.BEFORE, 2),
    CrashPoint("cleanup.record_event", Side.AFTER, 2),
    *both_sides("cleanup.finish"),
]


async def dies_at(world: CancelWorld, point: CrashPoint) -> None:
    """Serve one cancel in a process that dies there."""
    life = Life(point)
    held = FaultyProvider(inner=world.real, trouble=life.trouble)
    with contextlib.suppress(PortError):
        await cancelled(world.canceller(life, [held]))
    assert life.crashed.is_set(), f"{point} was never reached"


@pytest.mark.parametrize("point", BEFORE_THE_COMMIT, ids=str)
async def test_a_death_before_the_commit_changes_nothing(
    point: CrashPoint, autojump_clock: trio.testing.MockClock
) -> None:
    """The run lives, so does its sandbox, and nobody owes anything (I12)."""
    world = CancelWorld(life=SLOWLY)
    await world.parked_alone()
    stranger = await world.stranger()

    await dies_at(world, point)

    assert (await world.run("r1")).status is RunStatus.WAITING
    assert not world.delete_asked
    assert world.world.open_cleanup == {}
    await world.finish()
    assert (await world.run("r1")).status is RunStatus.COMPLETED
    assert await settled(world, stranger)


@pytest.mark.parametrize("point", BEHIND_IT, ids=str)
async def test_a_death_behind_the_commit_leaves_the_rest_to_workers(
    point: CrashPoint, autojump_clock: trio.testing.MockClock
) -> None:
    """The run is cancelled, its obligation stands, and its time ends with the first acceptance."""
    world = CancelWorld(life=SLOWLY)
    await world.parked_alone()
    stranger = await world.stranger()

    await dies_at(world, point)

    assert (await world.run("r1")).status is RunStatus.CANCELLED
    assert len(world.world.open_cleanup) == 1
    await world.finish()
    assert world.world.open_cleanup == {}
    assert await settled(world, stranger)
    assert world.kinds().count("provider_delete_accepted") == 1
    assert world.billing_problems("r1") == []
    assert await world.terminal_facts("r1") == ["run.cancelled"]


@attrs.define(eq=False)
class Held(NoFaults):
    """Notes every operation, and holds one up until it is let go."""

    operation: str
    let_go: trio.Event = attrs.field(factory=trio.Event)
    seen: list[str] = attrs.field(factory=list)

    async def before(self, operation: str) -> None:
        """Note it, and stand where it is held up."""
        self.seen.append(operation)
        if operation == self.operation:
            await self.let_go.wait()


async def test_the_clean_up_starts_first_and_deletes_behind_the_commit(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What is recorded is read beside the commit, and no delete is asked for before it (I12)."""
    world, held = CancelWorld(), Held("terminals.cancel")
    await world.parked_alone()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancelled, world.canceller(held))
        await trio.testing.wait_all_tasks_blocked()
        assert held.seen == ["sandboxes.resources", "terminals.cancel"]
        assert not world.delete_asked
        held.let_go.set()

    assert held.seen[2] == "cleanup.claim_sandboxes"
    assert world.delete_asked


async def test_a_slow_reading_holds_no_commit_up(autojump_clock: trio.testing.MockClock) -> None:
    """The commit does not wait for the clean-up, which is given up after a while and said."""
    world = CancelWorld()
    await world.parked_alone()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancelled, world.canceller(Hanging("sandboxes.resources")))
        await trio.testing.wait_all_tasks_blocked()
        assert (await world.run("r1")).status is RunStatus.CANCELLED

    assert world.warnings() == ["not done in time"]
    assert len(world.world.open_cleanup) == 1


async def test_an_error_of_the_commit_is_the_callers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """An obligation that could not be written is never passed over in silence (C10.R2)."""
    world = CancelWorld()
    await world.parked_alone()
    away = Struck("terminals.cancel", before_it=[Unavailable("the store is away")])

    with pytest.raises(Unavailable, match="the store is away"):
        await cancelled(world.canceller(away))

    assert not world.delete_asked
    assert (await world.run("r1")).status is RunStatus.WAITING


async def test_an_unknown_commit_that_happened_deletes_all_the_same(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The other parts still run, and the caller learns that the outcome is unknown (C09.3)."""
    world = CancelWorld()
    await world.parked_alone()
    lost = Struck("terminals.cancel", after_it=[OutcomeUnknown("the answer is lost")])

    with pytest.raises(OutcomeUnknown):
        await cancelled(world.canceller(lost))

    assert (await world.run("r1")).status is RunStatus.CANCELLED
    assert world.delete_asked


async def test_a_commit_without_an_answer_is_unknown(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nobody waits for the store for ever."""
    world = CancelWorld()
    await world.parked_alone()

    with trio.fail_after(60), pytest.raises(OutcomeUnknown):
        await cancelled(world.canceller(Hanging("terminals.cancel")))

    assert not world.delete_asked


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        ("sandboxes.resources", "the store is away"),
        ("cleanup.claim_sandboxes", "the store is away"),
        ("cleanup.finish", "the store is away"),
    ],
)
async def test_a_store_that_fails_the_clean_up_is_said(
    operation: str, error: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The run is cancelled all the same; a worker goes on with its sandbox (C10.R3)."""
    world = CancelWorld(life=SLOWLY)
    await world.parked_alone()
    away = Struck(operation, before_it=[Unavailable(error)])

    assert isinstance(await cancelled(world.canceller(away)), Cancelled)

    (warned,) = world.warnings()
    assert error in str(warned)
    await world.finish()
    assert world.world.open_cleanup == {}


async def test_each_sandbox_is_tried_by_itself(autojump_clock: trio.testing.MockClock) -> None:
    """One that fails is said with its error, and the others are deleted (C10.R3)."""
    world = CancelWorld(life=SLOWLY)
    first = await world.parked_alone()
    await world.another(first.provider, "second")
    world.provider.faults = Struck("daytona.delete", before_it=[Unavailable("502")])

    assert isinstance(await cancelled(world.canceller()), Cancelled)

    (warned,) = world.warnings()
    assert "502" in str(warned)
    asked = [one.delete_accepted_at for one in world.provider.sandboxes.values()]
    assert sorted(at is not None for at in asked) == [False, True]
    jobs = world.world.open_cleanup.values()
    assert sorted(one.failure_count for one in jobs) == [0, 1]
    await world.finish()
    assert world.world.open_cleanup == {}


async def test_a_provider_that_hangs_is_waited_for_only_so_long(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The caller gets the answer within the limit of a delete, and the failure is on record."""
    world = CancelWorld()
    await world.parked_alone()
    world.provider.faults = Hanging("daytona.delete")

    with trio.fail_after(world.limits.sandbox_delete.total_seconds() + 1):
        assert isinstance(await cancelled(world.canceller()), Cancelled)

    assert world.warnings() == ["timed_out"]
    assert world.kinds() == ["provider_delete_started", "provider_delete_failed"]


async def test_a_store_that_hangs_behind_the_delete_is_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The lease of the job runs out, and a worker takes it up."""
    world = CancelWorld(life=SLOWLY)
    await world.parked_alone()

    with trio.fail_after(60):
        assert isinstance(await cancelled(world.canceller(Hanging("cleanup.finish"))), Cancelled)

    assert world.warnings() == ["not done in time"]
    await world.finish()
    assert world.world.open_cleanup == {}


@pytest.mark.parametrize(
    ("production", "held"),
    [pytest.param(False, True, id="preview"), pytest.param(True, False, id="not-at-hand")],
)
async def test_what_workers_own_is_left_to_them(
    production: bool, held: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """The obligation is written, and only a worker deletes (C10.R2)."""
    world = CancelWorld(production=production, life=SLOWLY)
    await world.parked_alone()

    await cancelled(world.canceller(providers=None if held else []))

    assert not world.delete_asked
    assert len(world.world.open_cleanup) == 1
    await world.finish()
    assert world.world.open_cleanup == {}


async def test_a_caller_who_leaves_changes_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """A cancel that was asked for is carried through."""
    world = CancelWorld()
    await world.parked_alone()

    with trio.CancelScope() as scope:
        scope.cancel()
        await cancelled(world.canceller())

    assert (await world.run("r1")).status is RunStatus.CANCELLED
    assert world.delete_asked


async def test_a_repeated_cancel_is_harmless(autojump_clock: trio.testing.MockClock) -> None:
    """It finds the run ended and its sandbox accepted to go, and asks nothing twice (C09, I41)."""
    world = CancelWorld(life=SLOWLY)
    await world.parked_alone()
    await cancelled(world.canceller())

    again = await cancelled(world.canceller())

    assert again == NotCancelled(status=RunStatus.CANCELLED)
    assert world.kinds().count("provider_delete_accepted") == 1
    assert world.warnings() == []
    assert len(world.world.cleanup_jobs) == 1
