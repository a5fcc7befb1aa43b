"""Virtual time jumps to what is due next and stands still otherwise."""

import pytest
import trio

from deepline.simulation.clock import EPOCH, ProcessClock, VirtualClock, seconds_of


def test_an_hour_costs_nothing() -> None:
    """A nap of an hour is over at once, and the clock says that an hour has passed."""
    clock = VirtualClock()

    trio.run(clock.nap, 3_600.0, clock=clock)

    assert clock.current_time() == 3_600.0


def test_naps_and_deadlines_share_one_time() -> None:
    """Naps of our own and deadlines of Trio come in the order of their instants."""
    clock, woke = VirtualClock(), []

    async def nap(seconds: float) -> None:
        await clock.nap(seconds)
        woke.append(clock.current_time())

    async def sleep(seconds: float) -> None:
        await trio.sleep(seconds)
        woke.append(clock.current_time())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(nap, 3.0)
            nursery.start_soon(sleep, 2.0)
            nursery.start_soon(nap, 1.0)
            nursery.start_soon(sleep, 4.0)

    trio.run(main, clock=clock)

    assert woke == [1.0, 2.0, 3.0, 4.0]


def test_a_nap_can_be_cancelled() -> None:
    """A cancelled nap ends when its scope does, and is not waited for afterwards."""
    clock = VirtualClock()

    async def main() -> None:
        with trio.move_on_after(1.0):
            await clock.nap(10.0)
        await clock.nap(1.0)

    trio.run(main, clock=clock)

    assert clock.current_time() == 2.0


def test_a_wall_clock_may_be_wrong_and_durations_are_right() -> None:
    """A process with a wrong date still measures lengths as everybody does."""
    clock = VirtualClock()
    right, wrong = (
        ProcessClock(clock),
        ProcessClock(clock, offset=(EPOCH - EPOCH.replace(year=2025))),
    )

    assert wrong.now() - right.now() == EPOCH - EPOCH.replace(year=2025)
    assert wrong.monotonic() == right.monotonic()
    assert seconds_of(right.now()) == 0.0


def test_a_clock_that_drifts_is_read_back() -> None:
    """A clock that gains a second in a thousand shows it, and an instant is found by it."""
    clock = VirtualClock()
    drifting = ProcessClock(clock, drift=0.001)

    trio.run(clock.nap, 1_000.0, clock=clock)

    assert seconds_of(drifting.now()) == pytest.approx(1_001.0)
    assert drifting.seconds_of(drifting.now()) == pytest.approx(1_000.0)
    assert drifting.monotonic() == 1_000.0
