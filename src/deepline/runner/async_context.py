"""`ctx`, which an async play is given (docs/plays.md)."""

import inspect
from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from deepline.runner.async_mapping import TaskWork
from deepline.runner.asynchronous import awaited_value_of, in_thread
from deepline.runner.context import WORKERS, Common, checked_workers
from deepline.runner.rows import Rows
from deepline.runner.storable import storable

RowT = TypeVar("RowT")


class AsyncContext(Common):
    """`ctx` of `async def play(ctx, input)`."""

    async def map(
        self,
        name: str,
        rows: Iterable[RowT],
        function: Callable[[RowT], object],
        *,
        workers: int = WORKERS,
    ) -> Rows:
        """Like `Context.map`; coroutine functions run as tasks, others in threads."""
        inputs = list[object](rows)
        workers = checked_workers(workers, len(inputs))
        do = cast("Callable[[object], object]", function)
        with self._kit.suspensions.held_off():
            work = await in_thread(lambda: self._open(name, inputs))
            return await TaskWork(work, do, workers).run_in_loop()

    async def step(self, name: str, function: Callable[[], object]) -> object:
        """Like `Context.step`; `function` may be a coroutine function."""
        steps, full_name = self._kit.steps, self._scope.named(name, "step")
        with self._kit.suspensions.held_off():
            done, output = await in_thread(lambda: steps.begin(full_name))
            if done:
                return output
            value = await awaited_value_of(function)
            return await in_thread(lambda: steps.keep(full_name, value))

    async def once(
        self, name: str, function: Callable[[], object], *, retry: str | None = None
    ) -> object:
        """Like `Context.once`; `function` may be a coroutine function."""
        receipts, full_name = self._kit.receipts, self._scope.named(name, "receipt")
        with self._kit.suspensions.held_off():
            done, output = await in_thread(lambda: receipts.begin(full_name, retry))
            if done:
                return output
            value = await awaited_value_of(function)
            return await in_thread(lambda: receipts.keep(full_name, value))

    async def sleep(self, name: str, *, seconds: float) -> None:
        """Like `Context.sleep`."""
        self._kit.suspensions.sleep(self._scope.named(name, "pause"), seconds)

    async def wait_for(
        self,
        event: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - it goes on when this process has ended
        name: str | None = None,
    ) -> object:
        """Like `Context.wait_for`."""
        own_name = self._scope.named(event if name is None else name, "pause")
        return self._kit.suspensions.wait_for(own_name, event, timeout)

    async def run_play(
        self, play: object, input: object = None, *, name: str | None = None, **options: object
    ) -> object:
        """Like `Context.run_play`; a play that is no coroutine function gets a thread."""
        function, new_context = self._inline(play, name, options)
        plain = storable(input)
        if inspect.iscoroutinefunction(function):
            return storable(await function(new_context(), plain))
        return storable(await awaited_value_of(lambda: function(new_context(), plain)))
