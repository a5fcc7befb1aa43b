"""Chance by name, and no chance or time from elsewhere."""

import random
import threading
import time
import uuid

import pytest
import trio

from deepline.simulation.clock import VirtualClock
from deepline.simulation.dice import UNIT, Dice
from deepline.simulation.isolation import OutsideTouched, sealed, shut_off


def test_a_name_gives_one_number() -> None:
    """The same name gives the same number for the same seed, and others otherwise."""
    assert Dice(1).roll("a") == Dice(1).roll("a")
    assert len({Dice(1).roll("a"), Dice(1).roll("b"), Dice(2).roll("a")}) == 3


def test_draws_do_not_disturb_each_other() -> None:
    """What is drawn under one name does not depend on what was drawn before."""
    dice = Dice(5)
    alone = dice.share("b")
    dice.share("a")

    assert dice.share("b") == alone


def test_numbers_are_spread_evenly() -> None:
    """Shares and slices fill their range."""
    dice = Dice(3)
    shares = [dice.share(str(number)) for number in range(2_000)]
    slices = [one for number in range(500) for one in dice.slices(str(number))]

    assert 0.0 <= min(shares) < 0.01
    assert 0.99 < max(shares) < 1.0
    assert 0.45 < sum(shares) / len(shares) < 0.55
    assert 0.45 * UNIT < sum(slices) / len(slices) < 0.55 * UNIT
    assert {dice.pick(str(number), "abc") for number in range(50)} == set("abc")


@pytest.mark.parametrize(
    "reach",
    [time.time, time.monotonic, time.perf_counter, random.random, uuid.uuid4],
    ids=["time", "monotonic", "perf_counter", "random", "uuid4"],
)
def test_the_outside_is_out_of_reach(reach: object) -> None:
    """Real time and chance of one's own raise while a world runs, and work again afterwards."""
    name, module = reach.__name__, reach.__module__ or "random"  # type: ignore[attr-defined]
    owner = {"time": time, "random": random, "uuid": uuid}[module.partition(".")[0]]

    with sealed(), pytest.raises(OutsideTouched):
        getattr(owner, name)()

    assert getattr(owner, name)() is not None


def test_other_threads_are_left_alone() -> None:
    """Only the simulation's own thread is shut in."""
    told: list[float] = []

    with sealed():
        thread = threading.Thread(target=lambda: told.append(time.time()))
        thread.start()
        thread.join()

    assert len(told) == 1


def test_a_world_that_stands_still_is_told() -> None:
    """When nothing is due any more, whoever must end the world is told; nobody waits for ever."""
    clock, told = VirtualClock(), []

    async def main() -> None:
        with trio.CancelScope() as scope, shut_off(scope.cancel):
            await clock.nap(5.0)
            await trio.sleep_forever()
        told.append(scope.cancelled_caught)

    trio.run(main, clock=clock)

    assert told == [True]
