"""Planting a bug on purpose, to see that the simulation finds it (mutation testing of the oracle).

A planted bug is one changed line in one function of ours, put in place for as long as a `with`
block lasts. If thousands of worlds notice nothing, either the worlds do not get there or no rule
watches.
"""

import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType

import attrs

from deepline.simulation.simulate import WorldOptions, simulate


class StaleMutant(Exception):
    """The line that a planted bug changes is not there, or more than once."""


@attrs.frozen(kw_only=True)
class Mutant:
    """One planted bug: in `place` (`module:name` or `module:Class.name`), `line` becomes `wrong`.

    `fault` says in words what is wrong then.
    """

    name: str
    fault: str
    place: str
    line: str
    wrong: str


def bug(name: str, fault: str, place: str, line: str, wrong: str) -> Mutant:
    """Write one planted bug down."""
    return Mutant(name=name, fault=fault, place=place, line=line, wrong=wrong)


@attrs.frozen(kw_only=True)
class Catch:
    """How a planted bug was caught: by which rule, with which seed, after how many."""

    invariant: str
    seed: int
    tried: int


def hunt(mutant: Mutant, seeds: Iterable[int], options: WorldOptions | None = None) -> Catch | None:
    """Run seeds with the bug planted until a rule breaks; `None` when none does."""
    with planted(mutant):
        for tried, seed in enumerate(seeds, start=1):
            history = simulate(options or WorldOptions(), seed)
            if history.violations:
                return Catch(invariant=history.violations[0].invariant, seed=seed, tried=tried)
    return None


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Have the bug in place within. Raises `StaleMutant` when its line cannot be found."""
    module_name, _, path = mutant.place.partition(":")
    module = importlib.import_module(module_name)
    *owners, name = path.split(".")
    owner: object = module
    for step in owners:
        owner = getattr(owner, step)
    original: object = vars(owner)[name]
    wrong = _compiled(mutant, original, module, name)
    holders = [owner] if owners else _holders(name, original)
    for holder in holders:
        setattr(holder, name, wrong)
    try:
        yield
    finally:
        for holder in holders:
            setattr(holder, name, original)


def _compiled(mutant: Mutant, original: object, module: ModuleType, name: str) -> object:
    """The function with its line changed, compiled where the original lives."""
    source = textwrap.dedent(inspect.getsource(_function(original)))
    if source.count(mutant.line) != 1:
        found = source.count(mutant.line)
        raise StaleMutant(f"{mutant.name}: the line is {found} times in {mutant.place}")
    changed = source.replace(mutant.line, mutant.wrong)
    made: dict[str, object] = {}
    code = compile(changed, f"<planted {mutant.name}>", "exec")
    exec(code, vars(module), made)  # noqa: S102 - the text is our own source with one line changed
    return made[name]


def _function(original: object) -> FunctionType:
    written: object = original.fget if isinstance(original, property) else original
    assert isinstance(written, FunctionType)
    innermost: object = inspect.unwrap(written)
    assert isinstance(innermost, FunctionType)
    return innermost


def _holders(name: str, original: object) -> list[object]:
    """Every module of ours that imported the function by its name."""
    return [
        module
        for module_name, module in list(sys.modules.items())
        if module_name.startswith("deepline.") and vars(module).get(name) is original
    ]
