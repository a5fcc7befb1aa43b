"""`ctx`, which a play is given (docs/plays.md)."""

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NoReturn, TypeVar, cast

from deepline.runner.async_mapping import TaskWork
from deepline.runner.asynchronous import value_of
from deepline.runner.bounds import LINE_CHARS_MAX, ROWS_MAX, WORKERS_MAX
from deepline.runner.capture import printable
from deepline.runner.failures import shortened, shown, worded
from deepline.runner.inline_plays import InlineOnly, check_call, resolved
from deepline.runner.kit import Kit, Scope
from deepline.runner.loading import Play
from deepline.runner.mapping import RowWork, map_in_threads
from deepline.runner.receipts import ActionInDoubt
from deepline.runner.rows import Rows
from deepline.runner.storable import NotStorable, encode, storable

RowT = TypeVar("RowT")
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
    InlineOnly = InlineOnly
    """What `ctx.run_play` raises for all but a play of one input that is performed here."""

    def __init__(self, kit: Kit, scope: Scope) -> None:
        self._kit = kit
        self._scope = scope
        self.run_id = kit.run_id
        self.attempt = kit.attempt
        self.secrets = Secrets(kit.secrets)

    def log(self, text: object, /, **fields: object) -> None:
        """Write a line to the run's log, with named values beside it. Never fails."""
        line = printable(worded(text))
        self._kit.link.tell(
            "log", {"text": shortened(line, LINE_CHARS_MAX), "fields": _plain_fields(fields)}
        )

    def progress(self, done: int, total: int | None = None, *, failed: int = 0) -> None:
        """Tell how far the play is, in units of its own."""
        payload = storable({"done": done, "total": total, "failed": failed})
        self._kit.link.tell("progress", {"payload": payload})

    def __getattr__(self, name: str) -> NoReturn:
        known = sorted(word for word in dir(self) if not word.startswith("_"))
        raise AttributeError(f"ctx has no {name!r}; it has {', '.join(known)}")

    def _open(self, name: str, inputs: list[object]) -> RowWork:
        name = self._scope.named(name, "sheet")
        if name in self._kit.sheets:
            raise ValueError(f"the sheet {name!r} exists already; give each map its own name")
        if len(inputs) > ROWS_MAX:
            raise ValueError(f"a sheet has at most {ROWS_MAX} rows, not {len(inputs)}")
        self._kit.sheets.add(name)
        return RowWork(self._kit.link, name, inputs)

    def _inline(
        self, play: object, name: str | None, options: Mapping[str, object]
    ) -> tuple[Play, Callable[[], object]]:
        """The function of a play performed inline, and what makes its context."""
        check_call(self._scope.depth, options)
        function, own_name = resolved(self._kit.directory, play, name)
        taken = self._scope.named(own_name, "play")
        if taken in self._kit.plays:
            raise ValueError(f"the play {taken!r} was performed already; give each call a name=")
        self._kit.plays.add(taken)
        scope = self._scope.below(own_name)
        return function, lambda: self._kit.new_context(self._kit, function, scope)


class Context(Common):
    """`ctx` of `def play(ctx, input)`."""

    def __init__(self, kit: Kit, scope: Scope) -> None:
        super().__init__(kit, scope)
        self._thread = threading.get_ident()

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
        workers = checked_workers(workers, len(inputs))
        do = cast("Callable[[object], object]", function)
        with self._kit.suspensions.held_off():
            work = self._open(name, inputs)
            if inspect.iscoroutinefunction(function):
                return TaskWork(work, do, workers).run()
            return map_in_threads(work, do, workers)

    def step(self, name: str, function: Callable[[], object]) -> object:
        """Do `function()` once for the whole run; a resumed play gets the kept output."""
        steps, name = self._kit.steps, self._scope.named(name, "step")
        with self._kit.suspensions.held_off():
            done, output = steps.begin(name)
            return output if done else steps.keep(name, value_of(function()))

    def once(
        self, name: str, function: Callable[[], object], *, retry: str | None = None
    ) -> object:
        """Do `function()`, an action outside, at most once in the whole run; answer its result.

        When an earlier process of the run began it and told of no result, `ctx.ActionInDoubt` is
        raised, or with `retry="safe"` the action is done again.
        """
        receipts, name = self._kit.receipts, self._scope.named(name, "receipt")
        with self._kit.suspensions.held_off():
            done, output = receipts.begin(name, retry)
            return output if done else receipts.keep(name, value_of(function()))

    def sleep(self, name: str, *, seconds: float) -> None:
        """Let go of the sandbox for that time; then the play is performed again up to here."""
        self._check_thread()
        self._kit.suspensions.sleep(self._scope.named(name, "pause"), seconds)

    def wait_for(
        self, event: str, *, timeout: float | None = None, name: str | None = None
    ) -> object:
        """Let go of the sandbox until that event comes, and answer its data.

        Raises `TimeoutError` when it does not come within `timeout` seconds. A play that waits for
        one event several times gives each wait a `name`.
        """
        self._check_thread()
        own_name = self._scope.named(event if name is None else name, "pause")
        return self._kit.suspensions.wait_for(own_name, event, timeout)

    def run_play(
        self, play: object, input: object = None, *, name: str | None = None, **options: object
    ) -> object:
        """Perform another play here, as part of this one, and answer its result.

        `play` is a function `(ctx, input)`, or names one of this bundle: `MODULE` or
        `MODULE:FUNCTION`. Whatever else is asked for raises `ctx.InlineOnly`.
        """
        function, new_context = self._inline(play, name, options)
        return storable(value_of(function(new_context(), storable(input))))

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise RuntimeError("a play pauses in its own thread, not in one that it started")


def checked_workers(workers: int, rows: int) -> int:
    """How many rows are done at a time. Raises `ValueError`."""
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
