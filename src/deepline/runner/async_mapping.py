"""Doing the rows of a sheet in tasks (C23)."""

import inspect
from collections.abc import Callable
from functools import partial

from deepline.runner.asynchronous import Threads, in_thread, is_cancelled, run_tasks, tasks
from deepline.runner.mapping import RowWork
from deepline.runner.rows import Outcome, Rows, failed, returned


class TaskWork:
    """Rows done by tasks of one loop. Functions that block get threads."""

    def __init__(self, work: RowWork, function: Callable[[object], object], workers: int) -> None:
        self._work = work
        self._function = function
        self._workers = workers
        self._threads = None if inspect.iscoroutinefunction(function) else Threads(workers)

    def run(self) -> Rows:
        """Do the rows that are left, where no loop runs."""
        run_tasks(self._do, self._workers)
        return self._work.finish()

    async def run_in_loop(self) -> Rows:
        """Do the rows that are left, in the loop that runs."""
        try:
            await tasks(self._do, self._workers)
            return await in_thread(self._work.finish)
        finally:
            if self._threads is not None:
                self._threads.close()

    async def _do(self) -> None:
        for at in self._work:
            outcome = await self._outcome(at)
            if self._work.writer.full:
                await in_thread(partial(self._work.writer.add, outcome))
            else:
                self._work.writer.add(outcome)
            self._work.keep(outcome.row)

    async def _outcome(self, at: int) -> Outcome:
        row = self._work.inputs[at]
        try:
            output = await self._output(row)
        except BaseException as error:  # noqa: ASYNC103 - a row fails alone
            if is_cancelled():
                raise
            return failed(at, row, error)  # noqa: ASYNC104
        return returned(at, row, output)

    async def _output(self, row: object) -> object:
        if self._threads is None:
            value = self._function(row)
            assert inspect.isawaitable(value)
            return await value
        return await self._threads.call(partial(self._function, row))
