"""The one way from Trio to asyncio: results, errors, cancellation both ways, bounded ends."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator

import pytest
import trio

from deepline.adapters.asyncio_bridge import AsyncioBridge
from deepline.ports.errors import OutcomeUnknown, Unavailable

LONG_S = 60.0
"""Longer than any test may take."""


@pytest.fixture
async def bridge() -> AsyncIterator[AsyncioBridge]:
    """An open bridge with a short patience."""
    async with AsyncioBridge(unwind_s=0.2, close_s=1.0) as bridge:
        yield bridge


class Watched:
    """Work that tells Trio when it has begun and how it ended."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ended: str | None = None

    async def hang(self) -> None:
        """Wait for ever on the asyncio side."""
        self.begun.set()
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)  # noqa: ASYNC102 - unwinding takes a moment
            self.ended = "cancelled"
            raise

    async def wait_begun(self) -> None:
        """Come back once the work runs."""
        while not self.begun.is_set():
            await trio.sleep(0.001)


async def test_a_result_crosses(bridge: AsyncioBridge) -> None:
    """What the work gives comes back, and it ran on a loop in another thread."""

    async def work() -> tuple[int, str]:
        await asyncio.sleep(0)
        return 42, threading.current_thread().name

    assert await bridge.run(work) == (42, "asyncio-bridge")


async def test_an_error_crosses_as_it_is(bridge: AsyncioBridge) -> None:
    """The work's error is raised in Trio, the same object, for its adapter to translate."""
    error = ValueError("no")

    async def work() -> None:
        await asyncio.sleep(0)
        raise error

    with pytest.raises(ValueError, match="no") as raised:
        await bridge.run(work)

    assert raised.value is error


async def test_an_exit_ends_its_caller_alone(bridge: AsyncioBridge) -> None:
    """A library that exits the program is heard by its caller; the loop serves on."""

    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await bridge.run(leave)

    async def work() -> int:
        return 1

    assert await bridge.run(work) == 1


async def test_calls_run_side_by_side(bridge: AsyncioBridge) -> None:
    """One call does not wait for another."""
    first, second = asyncio.Event(), asyncio.Event()

    async def meet(mine: asyncio.Event, other: asyncio.Event) -> None:
        mine.set()
        await other.wait()

    with trio.fail_after(LONG_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bridge.run, lambda: meet(first, second))
            nursery.start_soon(bridge.run, lambda: meet(second, first))


async def test_more_calls_than_places_wait() -> None:
    """The number of calls under way is bounded."""
    under_way: list[int] = []
    most: list[int] = []

    async def work() -> None:
        under_way.append(1)
        most.append(len(under_way))
        await asyncio.sleep(0.005)
        under_way.pop()

    async with AsyncioBridge(calls_max=2) as bridge, trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(bridge.run, work)

    assert max(most) == 2


async def test_cancelling_ends_the_other_side_first(bridge: AsyncioBridge) -> None:
    """A cancelled call comes back after the asyncio task has unwound, and not as an error."""
    watched = Watched()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bridge.run, watched.hang)
        await watched.wait_begun()
        nursery.cancel_scope.cancel()

    assert watched.ended == "cancelled"
    assert bridge.left_behind == 0


async def test_cancelling_before_the_work_begins(bridge: AsyncioBridge) -> None:
    """A call cancelled before the loop came to it never begins."""
    begun: list[bool] = []

    async def work() -> None:
        begun.append(True)

    with trio.CancelScope() as scope:
        scope.cancel()
        await bridge.run(work)

    async def nothing() -> None:
        return None

    await bridge.run(nothing)
    assert scope.cancelled_caught
    assert begun == []


async def test_work_that_will_not_unwind_is_left_behind(bridge: AsyncioBridge) -> None:
    """A caller gets away from work that ignores its cancellation, and that is counted."""
    begun, freed = threading.Event(), threading.Event()

    async def stubborn() -> None:
        begun.set()
        while not freed.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:  # noqa: ASYNC103 - it is the point
                continue  # noqa: ASYNC104 - it is the point

    with trio.fail_after(LONG_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bridge.run, stubborn)
            while not begun.is_set():
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
    freed.set()

    assert bridge.left_behind == 1


async def test_a_cancellation_from_over_there_is_no_cancellation_here(
    bridge: AsyncioBridge,
) -> None:
    """When the SDK cancels its own task the caller is told that nothing is known."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(LONG_S)

    with pytest.raises(OutcomeUnknown):
        await bridge.run(work)


async def test_context_stays_on_its_side(bridge: AsyncioBridge) -> None:
    """Context variables of the caller are not seen by the work, nor the other way round."""
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("trio")

    async def work() -> str:
        seen = variable.get()
        variable.set("asyncio")
        return seen

    assert await bridge.run(work) == "none"
    assert variable.get() == "trio"


async def test_closing_ends_what_is_under_way() -> None:
    """Leaving the bridge cancels its calls, tells their callers, and ends the thread."""
    watched = Watched()
    told: list[type[Exception]] = []

    async def call(bridge: AsyncioBridge) -> None:
        try:
            await bridge.run(watched.hang)
        except OutcomeUnknown as unknown:
            told.append(type(unknown))

    with trio.fail_after(LONG_S):
        async with trio.open_nursery() as nursery, AsyncioBridge() as bridge:
            nursery.start_soon(call, bridge)  # noqa: ASYNC111 - its caller outlives it
            await watched.wait_begun()

    assert told == [OutcomeUnknown]
    assert watched.ended == "cancelled"
    with pytest.raises(Unavailable):
        await bridge.run(watched.hang)


async def test_closing_is_bounded() -> None:
    """A library that blocks its loop's thread delays closing for no longer than it may."""
    blocked, freed = threading.Event(), threading.Event()

    async def block() -> None:
        blocked.set()
        freed.wait(LONG_S)

    started = trio.current_time()
    async with (
        AsyncioBridge(unwind_s=0.05, close_s=0.1) as bridge,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(bridge.run, block)
        await trio.to_thread.run_sync(blocked.wait, LONG_S)
        nursery.cancel_scope.cancel()
    elapsed_s = trio.current_time() - started
    freed.set()
    for thread in threading.enumerate():
        if thread.name == "asyncio-bridge":
            await trio.to_thread.run_sync(thread.join, LONG_S)

    assert elapsed_s < LONG_S / 2
    assert bridge.left_behind == 1
