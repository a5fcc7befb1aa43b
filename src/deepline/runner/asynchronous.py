"""Plays, rows and steps that are coroutines; the one place of the runner that knows asyncio."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

T = TypeVar("T")


def value_of(value: object) -> object:
    """The value itself, or what it comes to when it is to be awaited; where no loop runs."""
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def awaited_value_of(function: Callable[[], object]) -> object:
    """Call the function, in a thread unless it is a coroutine's, and await what it returns."""
    if inspect.iscoroutinefunction(function):
        return await _awaited(function())
    value = await asyncio.to_thread(function)
    return await _awaited(value) if inspect.isawaitable(value) else value


async def in_thread(function: Callable[[], T]) -> T:
    """Wait for something that blocks without holding up other tasks."""
    return await asyncio.to_thread(function)


def run_tasks(work: Callable[[], Awaitable[None]], count: int) -> None:
    """Run that many tasks of the same work to their end, where no loop runs."""
    asyncio.run(tasks(work, count))


async def tasks(work: Callable[[], Awaitable[None]], count: int) -> None:
    """Run that many tasks of the same work to their end; the first error ends the others."""
    running = [asyncio.ensure_future(_awaited(work())) for _ in range(count)]
    try:
        await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def is_cancelled() -> bool:
    """True when the task that asks is itself cancelled, and not something it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Threads:
    """Threads of its own for functions that block, as many as there are rows at a time."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="row")

    async def call(self, function: Callable[[], object]) -> object:
        """Call the function in a thread, and await here what it returns."""
        value = await asyncio.get_running_loop().run_in_executor(self._pool, function)
        return await _awaited(value) if inspect.isawaitable(value) else value

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(wait=False, cancel_futures=True)


async def _awaited(value: object) -> object:
    return await cast("Awaitable[object]", value)
