"""From a world that fails to the least that fails in the same way.

First the plays that the failing history does not tell of are taken away, since it can do without
them; then faults, half of them at a time and then one by one; then plays; at last the schedule
becomes first come, first served. What is left is usually a handful of faults and a history of a
page, which reads as an explanation.
"""

from collections.abc import Callable, Sequence

import attrs

from deepline.simulation.history import History
from deepline.simulation.scheduling import Strategy
from deepline.simulation.simulate import WorldOptions, simulate

MOST_WORLDS = 400


@attrs.frozen(kw_only=True)
class Shrunk:
    """The least world found: its options and its history. `tried` counts the worlds run."""

    options: WorldOptions
    history: History
    tried: int


class NothingToShrink(ValueError):
    """Everything holds in this world."""


@attrs.define(eq=False)
class _Search:
    seed: int
    invariant: str
    options: WorldOptions
    history: History
    tried: int = 1

    def accepts(self, options: WorldOptions) -> bool:
        """Does this world still break the same rule? Then it is the least so far."""
        if self.tried >= MOST_WORLDS:
            return False
        self.tried += 1
        history = simulate(options, self.seed)
        if not any(one.invariant == self.invariant for one in history.violations):
            return False
        self.options, self.history = options, history
        return True


def shrink(options: WorldOptions, seed: int) -> Shrunk:
    """Shrink the world of a failing seed. Raises `NothingToShrink` when everything holds."""
    history = simulate(options, seed)
    if history.held:
        raise NothingToShrink(f"every rule holds for seed {seed}")
    search = _Search(seed, history.violations[0].invariant, options, history)
    told = _told(history)
    drawn = {f"r{number}" for number in range(1, options.plays + 1)}
    search.accepts(attrs.evolve(options, left_out=options.left_out | (drawn - told)))
    _shrink_faults(search)
    for run_id in sorted(_told(search.history)):
        search.accepts(attrs.evolve(search.options, left_out=search.options.left_out | {run_id}))
    search.accepts(attrs.evolve(search.options, strategy=Strategy.FIFO))
    _shrink_faults(search)
    return Shrunk(options=search.options, history=search.history, tried=search.tried)


def _told(history: History) -> set[str]:
    return {event.run for event in history.events if event.run}


def _shrink_faults(search: _Search) -> None:
    def accepts(names: Sequence[str]) -> bool:
        return search.accepts(attrs.evolve(search.options, only=frozenset(names)))

    _least(list(dict.fromkeys(search.history.struck)), accepts)


def _least(names: list[str], accepts: Callable[[Sequence[str]], bool]) -> list[str]:
    """Take away halves, then quarters, and so on, for as long as the rest still fails."""
    if accepts([]):
        return []
    size = max(1, len(names) // 2)
    while names:
        start, found = 0, False
        while start < len(names):
            rest = names[:start] + names[start + size :]
            if len(rest) < len(names) and accepts(rest):
                names, found = rest, True
            else:
                start += size
        if size == 1 and not found:
            break
        size = max(1, size // 2)
    return names
