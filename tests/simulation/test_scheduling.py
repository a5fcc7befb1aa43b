"""The order in which tasks run follows the seed, and nothing is left behind afterwards."""

import itertools

import pytest
import trio
import trio._core._run as trio_loop

from deepline.simulation.scheduling import Schedule, Strategy, make_schedule, scheduled


def order_of(schedule: Schedule) -> tuple[str, ...]:
    """In which order three tasks take their two steps."""
    taken: list[str] = []

    async def steps(name: str) -> None:
        for number in (1, 2):
            await trio.lowlevel.checkpoint()
            taken.append(f"{name}{number}")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(steps, name)

    with scheduled(schedule):
        trio.run(main)
    return tuple(taken)


def test_an_even_shuffle_reaches_every_order() -> None:
    """Within each batch, every order of three tasks is reached by some seed."""
    orders = {order_of(make_schedule(Strategy.UNIFORM, seed)) for seed in range(300)}

    both = [
        (first, second)
        for first in itertools.permutations("abc")
        for second in itertools.permutations("abc")
    ]
    wanted = {
        tuple(f"{n}1" for n in first) + tuple(f"{n}2" for n in second) for first, second in both
    }
    assert orders == wanted


@pytest.mark.parametrize("strategy", Strategy)
def test_a_seed_gives_one_order(strategy: Strategy) -> None:
    """The same strategy and seed order the same tasks alike."""
    first = order_of(make_schedule(strategy, 7))

    assert order_of(make_schedule(strategy, 7)) == first


def test_first_come_first_served() -> None:
    """In the plain schedule tasks run in the order in which they were started."""
    assert order_of(make_schedule(Strategy.FIFO, 1)) == ("a1", "b1", "c1", "a2", "b2", "c2")


def test_priorities_keep_tasks_behind() -> None:
    """With priorities a task that is behind mostly stays behind, and each task may be."""
    orders = [order_of(make_schedule(Strategy.PRIORITIES, seed)) for seed in range(100)]
    kept = [order for order in orders if [s[0] for s in order[:3]] == [s[0] for s in order[3:]]]

    assert len(kept) > 90
    assert len(set(kept)) == 6


def test_trio_is_left_as_it_was() -> None:
    """What orders Trio's tasks elsewhere is put back."""
    before = trio_loop._r, trio_loop._ALLOW_DETERMINISTIC_SCHEDULING

    with scheduled(make_schedule(Strategy.UNIFORM, 1)):
        assert trio_loop._r is not before[0]

    assert (trio_loop._r, trio_loop._ALLOW_DETERMINISTIC_SCHEDULING) == before
