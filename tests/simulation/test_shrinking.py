"""A failing world is shrunk and kept as a file, and planted bugs are where they say."""

import os
import statistics
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from deepline.simulation import NothingToShrink, Strategy, WorldOptions, shrink, simulate
from deepline.simulation.history import History
from deepline.simulation.kept import CaughtSeeds, KeptSeed
from deepline.simulation.mutants import Mutant, StaleMutant, bug, hunt, planted
from deepline.simulation.planted_bugs import PLANTED

SEEDS = sorted(Path(__file__).with_name("seeds").glob("*.json"))
CAUGHT = CaughtSeeds.read(Path(__file__).with_name("caught.json")).seeds
FIRST_SEED = int(os.environ.get("DEEPLINE_SIM_FIRST", "100000"))
TURNS = 8
BY_NAME = {mutant.name: mutant for mutant in PLANTED}


def is_rare(mutant: Mutant) -> bool:
    """Would it take long to find this one again?"""
    return CAUGHT.get(mutant.name, 0) > 100


def turn_of(first_seed: int) -> list[Mutant]:
    """Some of the planted bugs that are caught soon, others when the first seed is another."""
    soon = [mutant for mutant in PLANTED if CAUGHT.get(mutant.name, 0) <= 30]
    return soon[first_seed % TURNS :: TURNS]


@pytest.fixture
def orphan() -> Iterator[None]:
    """A bug in place: runs end and nobody owes the deletion of their sandboxes."""
    with planted(BY_NAME["ended-without-obligation"]):
        yield


def first_broken() -> int:
    """The first seed for which a rule does not hold."""
    return next(seed for seed in range(1, 100) if not simulate(WorldOptions(), seed).held)


def runs_of(history: History) -> set[str]:
    """The runs that a history tells of."""
    return {event.run for event in history.events if event.run}


@pytest.mark.usefixtures("orphan")
def test_a_failing_world_is_shrunk() -> None:
    """What is left breaks the same rule with fewer faults and plays."""
    seed = first_broken()
    whole = simulate(WorldOptions(), seed)

    shrunk = shrink(WorldOptions(), seed)

    assert shrunk.history.violations[0].invariant == whole.violations[0].invariant
    assert len(shrunk.history.struck) <= len(whole.struck)
    assert runs_of(shrunk.history) <= runs_of(whole)
    assert shrunk.options.strategy is Strategy.FIFO


def test_a_world_that_holds_is_not_shrunk() -> None:
    """There is nothing to explain about it."""
    with pytest.raises(NothingToShrink, match="seed 1"):
        shrink(WorldOptions(), 1)


def test_a_kept_seed_is_read_as_written(tmp_path: Path) -> None:
    """A file holds all that is needed to run the world again."""
    kept = KeptSeed(
        seed=7,
        broke="I01",
        story="it ended twice",
        only=("w1.1:attempts.park#1 lost",),
        left_out=("r2",),
        strategy=Strategy.FIFO,
        planted="cancel-after-end",
    )

    kept.write(tmp_path / "seed.json")

    assert KeptSeed.read(tmp_path / "seed.json") == kept
    assert KeptSeed.read(tmp_path / "seed.json").replay(WorldOptions()).seed == 7


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_kept_seeds_hold_for_ever(path: Path) -> None:
    """A world that broke a rule once holds now, and breaks it again with its bug put back."""
    kept = KeptSeed.read(path)

    history = kept.replay(WorldOptions())

    assert history.held, history.violations
    if kept.planted is not None:
        with planted(BY_NAME[kept.planted]):
            broken = kept.replay(WorldOptions())
        assert kept.broke in {one.invariant for one in broken.violations}


@pytest.mark.parametrize("mutant", PLANTED, ids=lambda mutant: mutant.name)
def test_planted_bugs_are_where_they_say(mutant: Mutant) -> None:
    """The line that a bug changes is there once, and the code is put back afterwards."""
    with planted(mutant):
        pass
    with planted(mutant):
        pass


def test_a_planted_bug_that_moved_is_noticed() -> None:
    """When the line is gone, so that the bug would do nothing, that is an error."""
    stale = bug("stale", "nothing", "deepline.core.parking:base", "no such line", "pass")

    with pytest.raises(StaleMutant, match="0 times"), planted(stale):
        pass


def test_the_catalogue_is_caught_whole() -> None:
    """Every planted bug was caught within two thousand worlds, half of them within a hundred."""
    assert set(CAUGHT) == set(BY_NAME)
    assert len(CAUGHT) >= 30
    assert max(CAUGHT.values()) <= 2_000
    assert statistics.median(CAUGHT.values()) <= 100


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=mutant.name, marks=[pytest.mark.slow] * is_rare(mutant))
        for mutant in PLANTED
    ],
)
def test_planted_bugs_are_caught_again(mutant: Mutant) -> None:
    """The world that caught a planted bug catches it, or, if worlds have changed, another does.

    `deepline sim mutants --keep` writes the others down.
    """
    seeds = chain([CAUGHT[mutant.name]], range(1, 2_001))

    assert hunt(mutant, seeds) is not None


@pytest.mark.slow
@pytest.mark.parametrize("mutant", turn_of(FIRST_SEED), ids=lambda mutant: mutant.name)
def test_planted_bugs_are_caught_in_fresh_worlds(mutant: Mutant) -> None:
    """Nothing hangs on the worlds in which a bug was caught before; some have their turn."""
    assert hunt(mutant, range(FIRST_SEED, FIRST_SEED + 2_000)) is not None
