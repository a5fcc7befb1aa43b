"""`deepline sim`: run the runtime in simulated worlds, and look into those where a rule broke."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.simulation.campaign import Outcome, Tally, run_seeds
from deepline.simulation.history import History
from deepline.simulation.kept import CaughtSeeds, KeptSeed
from deepline.simulation.mutants import hunt
from deepline.simulation.planted_bugs import PLANTED
from deepline.simulation.shrinking import NothingToShrink
from deepline.simulation.shrinking import shrink as shrink_world
from deepline.simulation.simulate import WorldOptions, simulate
from deepline.simulation.sometimes import SOMETIMES, never

app = App(name="sim", help="Run the runtime in simulated worlds and see whether every rule holds.")

Jobs = Annotated[int, Parameter(name=["--jobs", "-j"])]
ROUND = 200
MOST_SHOWN = 20


@app.command
def run(*, seeds: str = "1..1000", jobs: Jobs = 1) -> int:
    """Run a range of seeds and name those for which a rule does not hold.

    Parameters
    ----------
    seeds
        The first and the last seed, such as 1..1000, or one seed.
    jobs
        How many processes to run them in.
    """
    began = time.monotonic()
    tally = _tally(run_seeds(WorldOptions(), _seeds(seeds), jobs=jobs))
    return _summary(tally, time.monotonic() - began)


@app.command
def replay(seed: int, /, *, only_broken: bool = False) -> int:
    """Print the history of one seed, one event a line.

    Parameters
    ----------
    seed
        The seed.
    only_broken
        Print the broken rules alone.
    """
    history = simulate(WorldOptions(), seed)
    _print_history(history, quiet=only_broken)
    return ExitCode.DONE if history.held else ExitCode.FAILED


@app.command
def shrink(seed: int, /, *, keep: Path | None = None) -> int:
    """Find the fewest faults and plays with which a seed still breaks the same rule.

    Parameters
    ----------
    seed
        A seed for which a rule does not hold.
    keep
        Write what was found to this file, so that it can be run again.
    """
    try:
        shrunk = shrink_world(WorldOptions(), seed)
    except NothingToShrink as error:
        raise CommandFailed(f"{error}; there is nothing to shrink", ExitCode.USAGE) from None
    _print_history(shrunk.history, quiet=False)
    needed = shrunk.history.struck
    print(f"\nneeds {len(needed)} faults, found in {shrunk.tried} worlds:")
    for name in needed:
        print(f"  {name}")
    if keep is not None:
        KeptSeed(
            seed=seed,
            broke=shrunk.history.violations[0].invariant,
            story=shrunk.history.violations[0].message,
            only=tuple(needed),
            left_out=tuple(sorted(shrunk.options.left_out)),
            strategy=shrunk.options.strategy,
        ).write(keep)
    return ExitCode.FAILED


@app.command
def explore(*, minutes: float = 1.0, first: int = 1, jobs: Jobs = 1) -> int:
    """Run seed after seed for a while.

    Parameters
    ----------
    minutes
        For how long.
    first
        The first seed; a time of day makes a good one.
    jobs
        How many processes to run them in.
    """
    began = time.monotonic()
    tally, next_seed = Tally(), first
    while time.monotonic() - began < minutes * 60:
        seeds = range(next_seed, next_seed + ROUND)
        _tally(run_seeds(WorldOptions(), seeds, jobs=jobs), into=tally)
        next_seed += ROUND
    return _summary(tally, time.monotonic() - began)


@app.command
def coverage(*, seeds: str = "1..500", jobs: Jobs = 1) -> int:
    """Show in how many worlds each interesting state was reached; fail if one never was.

    Parameters
    ----------
    seeds
        The first and the last seed, such as 1..500.
    jobs
        How many processes to run them in.
    """
    tally = _tally(run_seeds(WorldOptions(), _seeds(seeds), jobs=jobs))
    for state, meaning in SOMETIMES.items():
        print(f"{tally.states[state]:7}  {state:40} {meaning}")
    missed = never(tally.states)
    for state in missed:
        print(f"never reached: {state}")
    return ExitCode.FAILED if missed else ExitCode.DONE


@app.command
def mutants(
    names: Annotated[list[str] | None, Parameter()] = None,
    /,
    *,
    most: int = 2000,
    keep: Path | None = None,
) -> int:
    """Plant one bug after another and tell after how many seeds each is caught.

    Parameters
    ----------
    names
        Which planted bugs; all of them when none is named.
    most
        Give up on one after so many seeds.
    keep
        Write the seed that caught each to this file, beside those that are there.
    """
    unknown = sorted(set(names or ()) - {mutant.name for mutant in PLANTED})
    if unknown:
        raise CommandFailed(f"there is no planted bug {', '.join(unknown)}", ExitCode.USAGE)
    chosen = [mutant for mutant in PLANTED if not names or mutant.name in names]
    caught: list[int] = []
    kept = CaughtSeeds.read(keep)
    for mutant in chosen:
        catch = hunt(mutant, range(1, most + 1))
        kept.add(mutant.name, catch)
        if catch is None:
            print(f"{'MISSED':>6}  {mutant.name:44} {mutant.fault}", flush=True)
        else:
            caught.append(catch.tried)
            print(
                f"{catch.tried:6}  {mutant.name:44} by {catch.invariant}, seed {catch.seed}",
                flush=True,
            )
    print(f"{len(caught)} of {len(chosen)} caught, half of them within {_median(caught)} seeds")
    return ExitCode.DONE if len(caught) == len(chosen) else ExitCode.FAILED


def _median(counts: list[int]) -> int:
    return sorted(counts)[len(counts) // 2] if counts else 0


def _tally(outcomes: Iterable[Outcome], into: Tally | None = None) -> Tally:
    tally = Tally() if into is None else into
    for outcome in outcomes:
        tally.add(outcome)
        if outcome.violations and len(tally.broken) <= MOST_SHOWN:
            print(f"seed {outcome.seed}: {'; '.join(map(str, outcome.violations))}", flush=True)
    return tally


def _summary(tally: Tally, took_s: float) -> int:
    broken = len(tally.broken)
    print(
        f"{tally.seeds} worlds in {took_s:.0f} s ({tally.seeds / max(took_s, 0.001):.0f}/s), "
        f"{tally.virtual_s / 3600:.1f} virtual hours, {tally.steps} steps of the store, "
        f"{broken or 'no'} broken"
    )
    return ExitCode.FAILED if broken else ExitCode.DONE


def _print_history(history: History, *, quiet: bool) -> None:
    lines: Iterable[str] = history.lines()
    if quiet:
        lines = (f"BROKEN {violation}" for violation in history.violations)
    for line in lines:
        print(line)
    print(f"seed {history.seed}, digest {history.digest()}, {len(history.struck)} faults")


def _seeds(text: str) -> range:
    first, _, last = text.partition("..")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        raise CommandFailed(
            f"{text!r} is no range of seeds; write 1..1000", ExitCode.USAGE
        ) from None
