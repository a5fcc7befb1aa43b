"""A process dies just before and just after each call of the store; nothing goes wrong (C61).

The calls are read from the ports. Each case is a deployment over a database of its own whose roles
were all told to die at the call, once; whatever died is started again, the runs go on to the end
they must have, and the audit finds nothing. A part of the cases is in every test run, another one
for each commit (`DEEPLINE_FAULTS_SEED`); `make soak-tests` runs all.
"""

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest

from tests.faults.calls import NO_ANSWER, OFF_THE_PATHS, PATHS, USUAL, store_calls
from tests.faults.paths import PATHS as DRIVEN
from tests.support.light.deployment import WITH_KEY, Deployment
from tests.support.light.world import LightWorld, light_world
from tests.support.postgres import DatabaseServer, open_directory

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SOAK = "DEEPLINE_SOAK" in os.environ
SEED = os.environ.get("DEEPLINE_FAULTS_SEED", "1")
PART = 14
"""How many cases are in every test run."""
AT_ONCE = 7


@attrs.frozen
class Case:
    """One call, and on which side of it the process dies."""

    call: str
    moment: str

    def __str__(self) -> str:
        """As a test is named, and a fault asked for."""
        return f"{self.call} {self.moment}"


ALL: Sequence[Case] = [
    Case(call, moment)
    for call in store_calls()
    if call not in OFF_THE_PATHS
    for moment in ("before", "after")
    if moment == "before" or call not in NO_ANSWER
]
CHOSEN = ALL if SOAK else random.Random(SEED).sample(ALL, PART)


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """Where the processes of these tests write."""
    with open_directory() as made:
        yield made


@pytest.fixture(scope="module")
def outcomes(postgres: DatabaseServer, directory: Path) -> Iterator[Mapping[Case, "Future[None]"]]:
    """All chosen cases, several at a time."""
    with light_world(directory) as world, ThreadPoolExecutor(AT_ONCE) as threads:
        yield {case: threads.submit(die_at, case, postgres, directory, world) for case in CHOSEN}


@pytest.mark.parametrize("case", CHOSEN, ids=str)
def test_a_process_dies_at_a_store_call(
    case: Case, outcomes: Mapping[Case, "Future[None]"]
) -> None:
    """Somebody died at the call, every run ended as it must, and the audit finds nothing."""
    outcomes[case].result()


def die_at(case: Case, postgres: DatabaseServer, directory: Path, world: LightWorld) -> None:
    """Drive the path of a call while whoever makes the call dies of it."""
    path = PATHS.get(case.call, USUAL)
    own = directory / str(case).replace(" ", "-")
    own.mkdir(mode=0o700)
    with postgres.database(WITH_KEY) as dsn:
        deployment = Deployment(dsn, own, world, str(case))
        try:
            ends = DRIVEN[path](deployment)
            deployment.assert_sound()
            assert deployment.truth.statuses(list(ends)) == ends
            assert deployment.mark.exists(), (
                f"nobody made the call on the path {path!r}: name the path that makes it in PATHS,"
                " or why there is none in OFF_THE_PATHS"
            )
            assert not deployment.unexpected_ends()
            assert_started_once(deployment, list(ends))
        finally:
            deployment.close()


def assert_started_once(deployment: Deployment, run_ids: Sequence[str]) -> None:
    """A runner was started once, and once more for each pause."""
    starts = deployment.world.starts()
    for run_id in run_ids:
        pauses = deployment.truth.value(
            "select count(distinct evidence ->> 'boundary') from deepline.decisions"
            " where run_id = %s and rule = 'runner.pushed_suspension'",
            run_id,
        )
        assert starts.get(run_id, 0) <= 1 + pauses, (run_id, starts[run_id], pauses)


def test_the_tables_speak_of_calls_that_there_are() -> None:
    """Nothing that a table says is about a call which is no more."""
    known = set(store_calls())

    assert {*PATHS, *OFF_THE_PATHS, *NO_ANSWER} <= known
    assert set(PATHS.values()) <= set(DRIVEN)
    assert not set(PATHS) & set(OFF_THE_PATHS)
