"""`ctx`, which a play is given (docs/plays.md)."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NoReturn, TypeVar, cast

from deepline.runner.async_mapping import TaskWork
from deepline.runner.asynchronous import awaited_value_of, in_thread, value_of
from deepline.runner.bounds import LINE_CHARS_MAX, ROWS_MAX, WORKERS_MAX
from deepline.runner.capture import printable
from deepline.runner.failures import shortened, shown, worded
from deepline.runner.link import Link
from deepline.runner.mapping import RowWork, map_in_threads
from deepline.runner.receipts import ActionInDoubt, Receipts
from deepline.runner.rows import Rows
from deepline.runner.steps import Steps, checked_name
from deepline.runner.storable import NotStorable, encode, storable

RowT = TypeVar("RowT")
NOT_YET = frozenset({"sleep", "wait_for", "run_play"})
WORKERS = 8


class Secrets(Mapping[str, str]):
    """The secrets that the launch names, by name. Shows its names only."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        if name not in self._values:
            raise KeyError(f"{name}: name this secret when you submit the run, then it is here")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<secrets: {', '.join(sorted(self._values)) or 'none'}>"


class Common:
    """What sync and async plays have in common."""

    ActionInDoubt = ActionInDoubt
    """What `ctx.once` raises for an action that may have happened; here to be caught."""

    def __init__(self, link: Link, run_id: str, attempt: int, secrets: Mapping[str, str]) -> None:
        self._link = link
        self._steps = Steps(link)
        self._receipts = Receipts(link)
        self._sheets: set[str] = set()
        self.run_id = run_id
        self.attempt = attempt
        self.secrets = Secrets(secrets)

    def log(self, text: object, /, **fields: object) -> None:
        """Write a line to the run's log, with named values beside it. Never fails."""
        line = printable(worded(text))
        self._link.tell(
            "log", {"text": shortened(line, LINE_CHARS_MAX), "fields": _plain_fields(fields)}
        )

    def progress(self, done: int, total: int | None = None, *, failed: int = 0) -> None:
        """Tell how far the play is, in units of its own."""
        payload = storable({"done": done, "total": total, "failed": failed})
        self._link.tell("progress", {"payload": payload})

    def __getattr__(self, name: str) -> NoReturn:
        if name in NOT_YET:
            raise AttributeError(f"ctx.{name} is not available in this version of deepline")
        known = sorted(word for word in dir(self) if not word.startswith("_"))
        raise AttributeError(f"ctx has no {name!r}; it has {', '.join(known)}")

    def _open(self, name: str, inputs: list[object]) -> RowWork:
        checked_name(name, "sheet")
        if name in self._sheets:
            raise ValueError(f"the sheet {name!r} exists already; give each map its own name")
        if len(inputs) > ROWS_MAX:
            raise ValueError(f"a sheet has at most {ROWS_MAX} rows, not {len(inputs)}")
        self._sheets.add(name)
        return RowWork(self._link, name, inputs)


class Context(Common):
    """`ctx` of `def play(ctx, input)`."""

    def map(
        self,
        name: str,
        rows: Iterable[RowT],
        function: Callable[[RowT], object],
        *,
        workers: int = WORKERS,
    ) -> Rows:
        """Do `function(row)` for every row, `workers` at a time, and keep each outcome in a sheet.

        A row that raises fails alone. Rows that an earlier attempt finished are read back.
        """
        inputs = list[object](rows)
        workers = _checked_workers(workers, len(inputs))
        work = self._open(name, inputs)
        do = cast("Callable[[object], object]", function)
        if inspect.iscoroutinefunction(function):
            return TaskWork(work, do, workers).run()
        return map_in_threads(work, do, workers)

    def step(self, name: str, function: Callable[[], object]) -> object:
        """Do `function()` once for the whole run; a resumed play gets the kept output."""
        done, output = self._steps.begin(name)
        return output if done else self._steps.keep(name, value_of(function()))

    def once(
        self, name: str, function: Callable[[], object], *, retry: str | None = None
    ) -> object:
        """Do `function()`, an action outside, at most once in the whole run; answer its result.

        When an earlier process of the run began it and told of no result, `ctx.ActionInDoubt` is
        raised, or with `retry="safe"` the action is done again.
        """
        done, output = self._receipts.begin(name, retry)
        return output if done else self._receipts.keep(name, value_of(function()))


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
        workers = _checked_workers(workers, len(inputs))
        work = await in_thread(lambda: self._open(name, inputs))
        return await TaskWork(
            work, cast("Callable[[object], object]", function), workers
        ).run_in_loop()

    async def step(self, name: str, function: Callable[[], object]) -> object:
        """Like `Context.step`; `function` may be a coroutine function."""
        done, output = await in_thread(lambda: self._steps.begin(name))
        if done:
            return output
        value = await awaited_value_of(function)
        return await in_thread(lambda: self._steps.keep(name, value))

    async def once(
        self, name: str, function: Callable[[], object], *, retry: str | None = None
    ) -> object:
        """Like `Context.once`; `function` may be a coroutine function."""
        done, output = await in_thread(lambda: self._receipts.begin(name, retry))
        if done:
            return output
        value = await awaited_value_of(function)
        return await in_thread(lambda: self._receipts.keep(name, value))


def _checked_workers(workers: int, rows: int) -> int:
    if not 1 <= workers <= WORKERS_MAX:
        raise ValueError(f"workers is a number from 1 to {WORKERS_MAX}, not {workers}")
    return max(1, min(workers, rows))


def _plain_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """Fields of a log line; what JSON does not have, or is long, is shown as Python shows it."""
    plain: dict[str, object] = {}
    for name, value in fields.items():
        try:
            copy = storable(value)
            fits = len(encode(copy)) <= LINE_CHARS_MAX
        except NotStorable:
            copy, fits = None, False
        plain[printable(name)] = copy if fits else printable(shown(value, LINE_CHARS_MAX))
    return plain
