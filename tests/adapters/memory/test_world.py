"""Chance, ids and time of a world are its own."""

import random
from datetime import timedelta

import attrs
import pytest
import trio

from deepline.adapters.memory import (
    ShiftedClock,
    TickingClock,
    TrioTimeClock,
    World,
    open_ports,
)
from deepline.core.model.identity import Lane
from deepline.ports.liveness import BeatAccepted
from deepline.testing import Scene, play, write_script
from deepline.testing.scene import expect
from tests.contracts.memory_stores import memory_stores


async def test_the_same_chance_gives_the_same_secrets() -> None:
    """Two worlds with the same chance are the same world; with another they are not."""
    one, two, other = (World(chance=random.Random(seed)) for seed in (1, 1, 2))

    secrets = [[world.new_secret() for _ in range(3)] for world in (one, two, other)]

    assert secrets[0] == secrets[1] != secrets[2]
    assert len(set(secrets[0])) == 3


async def test_time_stands_still_within_a_step() -> None:
    """All that one step writes carries one instant, as in a transaction."""
    world = World(clock=TickingClock(TrioTimeClock()))

    first, second = world.run_step("test", lambda: (world.now(), world.now()))

    assert first == second
    assert world.now() > second


async def test_ticking_clocks_never_repeat(autojump_clock: trio.testing.MockClock) -> None:
    """Under a clock that stands still every reading is later than the one before."""
    clock = TickingClock(TrioTimeClock())

    readings = [clock.now() for _ in range(5)]

    assert readings == sorted(set(readings))
    assert readings[-1] - readings[0] == timedelta(microseconds=4)


async def test_beats_of_one_instant_differ(autojump_clock: trio.testing.MockClock) -> None:
    """Two beats under a clock that stands still have identities of their own (Q51)."""
    world = World()
    scene = await Scene.on(
        attrs.evolve(memory_stores(), **attrs.asdict(open_ports(world), recurse=False))
    )
    held = await scene.parked()

    first = expect(await scene.stores.liveness.beat(held.key), BeatAccepted)
    second = expect(await scene.stores.liveness.beat(held.key), BeatAccepted)

    assert first.identity != second.identity


async def test_an_acceptance_is_written_once() -> None:
    """A second acceptance of the same sandbox adds no row (I41)."""
    world = World()
    scene = await Scene.on(
        attrs.evolve(memory_stores(), **attrs.asdict(open_ports(world), recurse=False))
    )
    await scene.commit(await scene.bound(await scene.started()))
    (job,) = await scene.jobs()
    for _ in range(2):
        await scene.stores.cleanup.record_event(job, "provider_delete_accepted", {})

    assert [len(events) for events in world.cleanup_events.values()] == [1]


async def test_a_clock_is_only_put_forward() -> None:
    """A shift backwards is refused."""
    clock = ShiftedClock(TrioTimeClock())

    with pytest.raises(ValueError, match="forward"):
        clock.advance(timedelta(seconds=-1))


async def test_nothing_waits_for_real_time(autojump_clock: trio.testing.MockClock) -> None:
    """A whole script passes while Trio's clock stands still."""
    began = trio.current_time()

    await play(memory_stores(), write_script(3, length=300))

    assert trio.current_time() == began


async def test_a_bare_world_is_a_store() -> None:
    """A world needs nothing to begin with."""
    ports = open_ports(World())
    await ports.admission.ensure_lane(Lane("runs"), None)

    (state,) = await ports.lanes.all()

    assert state.open_tasks == 0
