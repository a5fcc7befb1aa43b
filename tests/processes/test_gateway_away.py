"""The gateway is away while runs start: they wait, or fail loudly past the bound (C17)."""

import time
from collections.abc import Sequence

import attrs
import pytest

from deepline.core.model.identity import RunId
from tests.support.fleet import Fleet, short

pytestmark = [pytest.mark.processes, pytest.mark.slow]
AWAY_S = 20.0
BRIEF_S = 10.0
"""How much of it the runs see that give up. Their last facts wait for the gateway, too."""
RUNS = 4
SHORT_BOUND = {"ABSURD_EXECUTOR_TOKEN_OUTAGE_MAX_MS": "4000"}
BRIEF = "worker-brief"
"""A worker with a lane of its own that bears only a short outage."""


@attrs.frozen
class Outage:
    """Runs that were submitted just before the gateway went away for twenty seconds."""

    fleet: Fleet
    patient: Sequence[RunId]
    brief: Sequence[RunId]
    statuses: dict[str, str]
    """Of all of them at the end of the outage."""


@pytest.fixture(scope="module")
def outage(shared_fleet: Fleet) -> Outage:
    """Let it be away, and come back."""
    fleet = shared_fleet
    fleet.heal()
    fleet.releases[BRIEF] = "brief"
    fleet.start(BRIEF, extra=SHORT_BOUND)
    for worker in ("worker", BRIEF):
        fleet.roles[worker].pause()
    patient = fleet.submit(*[short(number) for number in range(RUNS)])
    brief = fleet.submit(
        *[short(number) for number in range(RUNS)], options={"absurdReleaseId": "brief"}
    )
    fleet.roles["gateway"].kill()
    fleet.roles["worker"].go_on()
    time.sleep(AWAY_S - BRIEF_S)
    fleet.roles[BRIEF].go_on()
    time.sleep(BRIEF_S)
    statuses = fleet.truth.statuses([*patient, *brief])
    fleet.start("gateway")
    fleet.truth.wait_ended([*patient, *brief])
    fleet.assert_sound()
    return Outage(fleet, patient, brief, statuses)


@pytest.mark.parametrize("number", range(RUNS))
def test_a_run_waits_for_a_gateway_that_comes_back(number: int, outage: Outage) -> None:
    """Twenty seconds without one cost no engine attempt, and then the run finishes."""
    fleet, run_id = outage.fleet, outage.patient[number]

    assert outage.statuses[run_id] in {"queued", "running"}
    assert fleet.truth.result(run_id)["output"] == {"answer": number}
    assert fleet.witness.words(run_id) == {"started": 1}
    assert any("outage" in rule for rule in fleet.truth.rules(run_id))
    assert fleet.truth.attempts(run_id) > 2
    assert engine_attempts(fleet, run_id) == {1}


@pytest.mark.parametrize("number", range(RUNS))
def test_a_run_fails_loudly_when_it_stays_away(number: int, outage: Outage) -> None:
    """Past the bound it has one failed terminal that names the outage, and so does `why`."""
    fleet, run_id = outage.fleet, outage.brief[number]
    explained = fleet.api.explain(run_id)

    assert outage.statuses[run_id] == "failed"
    assert "outage bound" in fleet.truth.result(run_id)["error"]
    assert explained["situation"] == "token_outage_exhausted"
    assert "no executor token" in str(explained["sentence"])
    assert "no response" in str(explained["sentence"])
    assert engine_attempts(fleet, run_id) == {1}
    assert fleet.witness.words(run_id) == {}


def engine_attempts(fleet: Fleet, run_id: RunId) -> set[int]:
    """In which attempts of the engine the attempts of a run were."""
    found = fleet.truth.rows(
        "select engine_attempt from deepline.attempts where run_id = %s", run_id
    )
    return {number for (number,) in found}
