"""In which order tasks that can run do run: a strategy chosen by the seed (TRIO 4.5.2).

Trio shuffles each batch of runnable tasks through one module-level source of chance, which it
puts in place for Hypothesis. While a simulation runs, that source is ours. The attribute is
private but load-bearing for Trio's own testing support; should it ever move, the determinism
check fails at once.
"""

import enum
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, cast

import trio
import trio._core._run as trio_loop


class Strategy(enum.StrEnum):
    """How to choose among runnable tasks."""

    UNIFORM = "uniform"
    PRIORITIES = "priorities"
    FIFO = "fifo"


class Schedule(Protocol):
    """What Trio asks of its source of chance."""

    def shuffle(self, batch: list[trio.lowlevel.Task]) -> None:
        """Order a batch; the last task runs first."""
        ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...

    def make_fair(self) -> None:
        """From here on no task may be held back for ever; what is owed must come true."""
        ...


class Uniform(random.Random):
    """Every order of a batch is as likely as any other."""

    def make_fair(self) -> None:
        """It is fair."""


class Priorities(random.Random):
    """Each task keeps a rank of its own, and now and then one task falls behind all others.

    Few changes of rank reach the bugs that need one task to starve (probabilistic concurrency
    testing), which an even shuffle hardly ever does.
    """

    FALLS_PER_BATCH = 0.01

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._ranks: dict[int, float] = {}
        self._is_fair = False

    def make_fair(self) -> None:
        """Shuffle evenly from here on."""
        self._is_fair = True

    def shuffle(self, x: object) -> None:
        """Sort the batch by rank; the highest runs first."""
        batch = cast("list[trio.lowlevel.Task]", x)
        if self._is_fair:
            super().shuffle(batch)
            return
        ranks = self._ranks
        for task in batch:
            number = _number(task)
            if number not in ranks:
                ranks[number] = self.random()
        if len(batch) > 1 and self.random() < self.FALLS_PER_BATCH:
            fallen = batch[int(self.random() * len(batch))]
            ranks[_number(fallen)] = -self.random()
        batch.sort(key=lambda task: ranks[_number(task)])


class Fifo(random.Random):
    """Tasks run in the order in which they were started; histories read best this way."""

    def make_fair(self) -> None:
        """Every task comes to run in its turn."""

    def shuffle(self, x: object) -> None:
        """The oldest task runs first."""
        cast("list[trio.lowlevel.Task]", x).reverse()


def make_schedule(strategy: Strategy, seed: int) -> Schedule:
    """Build the schedule of one world."""
    match strategy:
        case Strategy.UNIFORM:
            return Uniform(seed)
        case Strategy.PRIORITIES:
            return Priorities(seed)
        case Strategy.FIFO:
            return Fifo(seed)


@contextmanager
def scheduled(schedule: Schedule) -> Iterator[None]:
    """Let the schedule order Trio's tasks within; restores what was there before."""
    names = ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING")
    before = [getattr(trio_loop, name) for name in names]
    for name, value in zip(names, (schedule, True), strict=True):
        setattr(trio_loop, name, value)
    try:
        yield
    finally:
        for name, value in zip(names, before, strict=True):
            setattr(trio_loop, name, value)


def _number(task: trio.lowlevel.Task) -> int:
    """Trio's own count of tasks, the same in each run of a seed."""
    return task._counter  # noqa: SLF001 - see above
