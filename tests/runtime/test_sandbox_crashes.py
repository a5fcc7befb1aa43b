"""A crash at each step from reservation to delete, on each side of each call (C46–C52, I50).

Whatever step a worker dies at, the next one brings the run to its end: no sandbox is left, none is
deleted that was not ours, and the sandbox's time ends with the first acceptance of its delete.
"""

from datetime import timedelta

import pytest
import trio.testing

from deepline.adapters.memory.sandbox_provider import Life as SandboxLife
from deepline.core.model.run import RunStatus
from deepline.testing import Side
from tests.support.sandbox_crashes import (
    CrashPoint,
    CrashWorld,
    both_sides,
    crash_and_recover,
    settled,
)

SLOWLY = SandboxLife(deleting_for=timedelta(minutes=5))
"""A provider that accepts a delete at once and takes longer for it than a lease lasts."""

ON_THE_WAY = both_sides(
    "capacity.reserve",
    "provider.create",
    "attempts.bind_sandbox",
    "provider.start",
    "attempts.park",
    "terminals.commit",
    "cleanup.record_event",
    "provider.delete",
    "cleanup.finish",
)
LATER = [
    CrashPoint("cleanup.claim", Side.BEFORE, 2),
    CrashPoint("cleanup.claim", Side.AFTER, 2),
    *both_sides("cleanup.acceptance"),
    CrashPoint("cleanup.record_event", Side.BEFORE, 2),
    CrashPoint("cleanup.record_event", Side.AFTER, 2),
    CrashPoint("provider.delete", Side.BEFORE, 2),
    CrashPoint("provider.delete", Side.AFTER, 2),
    CrashPoint("cleanup.finish", Side.BEFORE, 2),
    CrashPoint("cleanup.finish", Side.AFTER, 2),
]
SEARCHING = [
    *both_sides("provider.find", "cleanup.record_found", "provider.delete", "cleanup.finish"),
    CrashPoint("provider.find", Side.AFTER, 2),
    CrashPoint("cleanup.finish", Side.BEFORE, 3),
]


@pytest.mark.parametrize("point", [*ON_THE_WAY, *LATER], ids=str)
async def test_a_crash_leaves_nothing_behind(
    point: CrashPoint, autojump_clock: trio.testing.MockClock
) -> None:
    """From the reservation to the last word about the delete."""
    world = CrashWorld(life=SLOWLY)

    stranger = await crash_and_recover(world, point)

    assert (await world.run("r1")).status is RunStatus.COMPLETED
    assert await settled(world, stranger)
    assert world.world.open_cleanup == {}
    assert world.billing_problems("r1") == []
    assert await world.terminal_facts("r1") == ["run.completed"]


@pytest.mark.parametrize("point", SEARCHING, ids=str)
async def test_a_create_nobody_heard_of_is_found(
    point: CrashPoint, autojump_clock: trio.testing.MockClock
) -> None:
    """The worker dies with the create's answer, the run is cancelled, and the finder dies too."""
    world = CrashWorld(life=SLOWLY)

    stranger = await crash_and_recover(
        world, CrashPoint("provider.create", Side.AFTER), point, cancel_after_first=True
    )

    assert (await world.run("r1")).status is RunStatus.CANCELLED
    assert await settled(world, stranger)
    assert world.world.open_cleanup == {}
    assert world.billing_problems("r1") == []
    (use,) = world.world.usage["r1"]  # type: ignore[index]  # a run's id is a string
    assert use.ended_at is not None


async def test_an_answer_that_died_with_its_asker_stays_to_be_seen(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A provider that forgets at once proves nothing by its 404, so the job fails visibly (I40)."""
    world = CrashWorld()

    stranger = await crash_and_recover(world, CrashPoint("provider.delete", Side.AFTER))

    assert await settled(world, stranger)
    (job,) = world.world.open_cleanup.values()
    assert job.failure_count > 0
    (use,) = world.world.usage["r1"]  # type: ignore[index]  # a run's id is a string
    assert use.ended_at is None
