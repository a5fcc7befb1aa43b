"""Running many seeds, in as many processes as wanted, and adding up what came of them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

import attrs

from deepline.simulation.history import Violation
from deepline.simulation.simulate import WorldOptions, simulate
from deepline.simulation.sometimes import states_of

SEEDS_PER_TASK = 20


@attrs.frozen(kw_only=True)
class Outcome:
    """What one seed came to."""

    seed: int
    violations: tuple[Violation, ...]
    states: frozenset[str]
    steps: int
    ended_s: float


@attrs.define(eq=False)
class Tally:
    """The sum of many outcomes."""

    seeds: int = 0
    steps: int = 0
    virtual_s: float = 0.0
    broken: list[Outcome] = attrs.field(factory=list[Outcome])
    states: Counter[str] = attrs.field(factory=Counter[str])

    def add(self, outcome: Outcome) -> None:
        """Count one more."""
        self.seeds += 1
        self.steps += outcome.steps
        self.virtual_s += outcome.ended_s
        self.states.update(outcome.states)
        if outcome.violations:
            self.broken.append(outcome)


def run_seed(options: WorldOptions, seed: int) -> Outcome:
    """Run one seed and keep the gist of it."""
    history = simulate(options, seed)
    return Outcome(
        seed=seed,
        violations=tuple(history.violations),
        states=frozenset(states_of(history)),
        steps=history.steps,
        ended_s=history.ended_s,
    )


def run_seeds(options: WorldOptions, seeds: Iterable[int], *, jobs: int = 1) -> Iterator[Outcome]:
    """Run seeds and yield outcomes in order; with one job in this process, else in others.

    With several jobs the options must be picklable, which a provider of your own is when it is a
    function at the top of a module.
    """
    if jobs <= 1:
        yield from (run_seed(options, seed) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for outcomes in pool.map(_run_batch, _tasks(options, seeds)):
            yield from outcomes


def _tasks(
    options: WorldOptions, seeds: Iterable[int]
) -> Iterator[tuple[WorldOptions, tuple[int, ...]]]:
    waiting = iter(seeds)
    while batch := tuple(islice(waiting, SEEDS_PER_TASK)):
        yield options, batch


def _run_batch(task: tuple[WorldOptions, tuple[int, ...]]) -> list[Outcome]:
    options, seeds = task
    return [run_seed(options, seed) for seed in seeds]
