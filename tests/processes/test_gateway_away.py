"""The gateway is away while runs start: they wait, or fail loudly past the bound (C17)."""

import time

import pytest

from deepline.core.model.identity import RunId
from tests.support.fleet import Fleet, short

pytestmark = [pytest.mark.processes, pytest.mark.slow]
AWAY_S = 20.0
SHORT_BOUND = {"ABSURD_EXECUTOR_TOKEN_OUTAGE_MAX_MS": "4000"}


def test_runs_wait_for_a_gateway_that_comes_back(fleet: Fleet) -> None:
    """Twenty seconds without one cost no engine attempt, and then the runs finish."""
    fleet.roles["worker"].pause()
    run_ids = fleet.submit(*[short(number) for number in range(4)])
    fleet.roles["gateway"].kill()
    fleet.roles["worker"].go_on()
    time.sleep(AWAY_S)

    assert set(fleet.truth.statuses(run_ids).values()) <= {"queued", "running"}
    for run_id in run_ids:
        assert "outage" in fleet.truth.rules(run_id)[-1]
    fleet.start("gateway")
    fleet.truth.wait_ended(run_ids)

    fleet.assert_sound()
    for number, run_id in enumerate(run_ids):
        assert fleet.truth.result(run_id)["output"] == {"answer": number}
        assert fleet.witness.words(run_id) == {"started": 1}
        assert engine_attempts(fleet, run_id) == 1
        assert fleet.truth.attempts(run_id) > 2


def test_runs_fail_loudly_when_it_stays_away(fleet: Fleet) -> None:
    """Past the bound each run has one failed terminal that names the outage, and so does `why`."""
    fleet.restart("worker", SHORT_BOUND)
    fleet.roles["worker"].pause()
    run_ids = fleet.submit(*[short(number) for number in range(4)])
    fleet.roles["gateway"].kill()
    fleet.roles["worker"].go_on()
    fleet.truth.wait_ended(run_ids)
    fleet.start("gateway")

    fleet.assert_sound()
    for run_id in run_ids:
        assert fleet.truth.statuses([run_id]) == {run_id: "failed"}
        assert "outage bound" in fleet.truth.result(run_id)["error"]
        explained = fleet.api.explain(run_id)
        assert explained["situation"] == "token_outage_exhausted", explained
        assert "no executor token" in str(explained["sentence"])
        assert "no response" in str(explained["sentence"])
        assert engine_attempts(fleet, run_id) == 1
        assert fleet.witness.words(run_id) == {}


def engine_attempts(fleet: Fleet, run_id: RunId) -> int:
    """How many attempts of the engine were spent, the one in hand included."""
    count = fleet.truth.value(
        "select t.attempts from absurd.t_runs t join deepline.runs r using (task_id)"
        " where r.run_id = %s",
        run_id,
    )
    return int(count)
