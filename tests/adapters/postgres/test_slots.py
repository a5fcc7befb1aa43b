"""Slots are handed on in order of arrival, and nobody waits for longer than the bound (C59)."""

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from deepline.adapters.postgres.slots import Slots


async def test_free_slots_are_taken_at_once() -> None:
    """While there is a free slot nobody waits for the scheduler."""
    slots = Slots(2, waiters_max=1, wait_s=10)
    others_ran: list[bool] = []

    async def other() -> None:
        others_ran.append(True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        assert await slots.acquire()
        assert await slots.acquire()
        assert not others_ran

    assert slots.waiting == 0


async def test_order_of_arrival(autojump_clock: MockClock) -> None:
    """A released slot goes to whoever waits longest, though others come meanwhile."""
    slots = Slots(1, waiters_max=9, wait_s=10)
    served: list[int] = []

    async def borrow(number: int) -> None:
        assert await slots.acquire()
        served.append(number)
        await trio.sleep(1)
        slots.release()

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(borrow, number)
            await wait_all_tasks_blocked()

    assert served == [0, 1, 2, 3, 4]


async def test_too_many_wait(autojump_clock: MockClock) -> None:
    """Whoever finds the queue full is refused at once."""
    slots = Slots(1, waiters_max=1, wait_s=10)
    await slots.acquire()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slots.acquire)
        await wait_all_tasks_blocked()
        began = trio.current_time()

        assert not await slots.acquire()
        assert trio.current_time() == began
        slots.release()


async def test_waited_too_long(autojump_clock: MockClock) -> None:
    """Each waiter is refused exactly when its own time is over."""
    slots = Slots(1, waiters_max=9, wait_s=10)
    await slots.acquire()
    began = trio.current_time()
    refused: list[tuple[int, float]] = []

    async def wait(number: int) -> None:
        await trio.sleep(number)
        assert not await slots.acquire()
        refused.append((number, trio.current_time() - began))

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(wait, number)

    assert refused == [(0, 10), (1, 11), (2, 12), (3, 13)]
    assert slots.waiting == 0


async def test_a_later_queue_is_timed_anew(autojump_clock: MockClock) -> None:
    """After everybody was served, a queue that forms later has its own time."""
    slots = Slots(1, waiters_max=9, wait_s=10)
    for _ in range(3):
        await slots.acquire()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slots.acquire)
            await wait_all_tasks_blocked()
            slots.release()
        began = trio.current_time()
        assert not await slots.acquire()
        assert trio.current_time() - began == 10
        slots.release()


async def test_a_cancelled_waiter_takes_nothing(autojump_clock: MockClock) -> None:
    """Leaving the queue leaves everything as it was, for the others and their time."""
    slots = Slots(1, waiters_max=9, wait_s=10)
    await slots.acquire()
    with trio.move_on_after(4) as scope:
        await slots.acquire()
    began = trio.current_time()

    assert scope.cancelled_caught
    assert slots.waiting == 0
    assert not await slots.acquire()
    assert trio.current_time() - began == 10
    slots.release()
    assert await slots.acquire()


async def test_cancelled_already() -> None:
    """Who is cancelled already does not take a free slot."""
    slots = Slots(1, waiters_max=9, wait_s=10)
    with trio.CancelScope() as scope:
        scope.cancel()
        await slots.acquire()

    assert scope.cancelled_caught
    assert await slots.acquire()


async def test_a_slot_handed_over_is_kept_though_cancelled() -> None:
    """A waiter that is cancelled after it got its slot still has it, to give back."""
    slots = Slots(1, waiters_max=9, wait_s=10)
    await slots.acquire()
    got: list[bool] = []
    scope = trio.CancelScope()

    async def wait() -> None:
        with scope:
            got.append(await slots.acquire())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        slots.release()
        scope.cancel()

    assert got == [True]
    slots.release()
    assert await slots.acquire()
