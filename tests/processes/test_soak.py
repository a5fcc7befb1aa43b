"""Many runs under a storm of crashes, and an audit of everything that is written down after it.

The short form is part of every test run. `make soak-tests` runs the long one, with new moments each
time.
"""

import os
import random
import time

import attrs
import pytest

from deepline.core.model.identity import RunId
from tests.support.fleet import USUAL, Fleet, short

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@attrs.frozen(kw_only=True)
class Storm:
    """How many runs in how many batches, for how long something dies, and how often."""

    runs: int
    batches: int
    storm_s: float
    pause_s: tuple[float, float]
    patience_s: float


SHORT = Storm(runs=40, batches=4, storm_s=12, pause_s=(0.3, 1.5), patience_s=60)
LONG = Storm(runs=200, batches=20, storm_s=100, pause_s=(0.3, 3.0), patience_s=150)
ONLY_LONG = pytest.mark.skipif(
    "DEEPLINE_CHAOS_SEED" not in os.environ, reason="`make soak-tests` runs it"
)


@pytest.mark.parametrize(
    "storm",
    [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=ONLY_LONG)],
)
def test_a_storm_leaves_every_run_ended_once(
    storm: Storm, fleet: Fleet, chance: random.Random, request: pytest.FixtureRequest
) -> None:
    """Every run completes with the right answer, its play ran once, and the audit finds nothing."""
    fleet.start("worker-2")
    begun = time.monotonic()
    expected: dict[RunId, int] = {}
    batches = [begun + storm.storm_s * number / storm.batches for number in range(storm.batches)]
    hurt: list[str] = []
    while batches or time.monotonic() < begun + storm.storm_s:
        if batches and time.monotonic() >= batches[0]:
            batches.pop(0)
            expected |= submitted(fleet, storm.runs // storm.batches, len(expected), chance)
        hurt.append(hurt_something(fleet, chance))
        time.sleep(chance.uniform(*storm.pause_s))
    for name in (*USUAL, "worker-2"):
        if not fleet.roles[name].running:
            fleet.start(name)
    request.node.add_report_section("call", "hurt", " ".join(hurt))

    assert len(expected) == storm.runs
    fleet.truth.wait_ended(list(expected), within_s=storm.patience_s)
    fleet.assert_sound()
    for run_id, answer in expected.items():
        assert fleet.truth.result(run_id)["output"] == {"answer": answer}, run_id
        assert fleet.witness.words(run_id) == {"started": 1}, run_id


def submitted(fleet: Fleet, count: int, first: int, chance: random.Random) -> dict[RunId, int]:
    """Submit a batch; returns what each of its runs has to answer."""
    if not fleet.roles["gateway"].running:
        fleet.start("gateway")
    answers = range(first, first + count)
    run_ids = fleet.submit(*[short(answer, pause_s=chance.uniform(0, 2)) for answer in answers])
    return dict(zip(run_ids, answers, strict=True))


def hurt_something(fleet: Fleet, chance: random.Random) -> str:
    """Kill a role that runs or bring back one that does not; now and then crash the database."""
    if chance.random() < 0.1:
        fleet.crash_database()
        return "database"
    name = chance.choice([*USUAL, "worker", "worker-2"])
    if fleet.roles[name].running:
        fleet.roles[name].kill()
        return name
    fleet.start(name)
    return f"({name})"
