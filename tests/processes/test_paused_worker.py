"""A worker stands still past its lease and goes on when another has its run (I04, F36)."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import attrs
import pytest

from deepline.core.model.identity import RunId
from tests.support.fleet import Fleet, new_id, short
from tests.support.moments import Moment, held

pytestmark = [pytest.mark.processes, pytest.mark.slow]
STATE = """
    select r.status, r.terminal, r.terminal_at, r.why, r.next_seq, a.worker, a.lease_token
      from deepline.runs r
      join deepline.attempts a on a.run_id = r.run_id and a.attempt = r.attempt
     where r.run_id = %s
"""


@attrs.frozen
class Pause:
    """At which moment the worker stands still, and how many attempts its run then takes."""

    moment: Moment
    attempts: int


PAUSES: Mapping[str, Pause] = {
    "before-it-binds-its-sandbox": Pause(Moment.BIND, attempts=2),
    "before-it-parks": Pause(Moment.PARK, attempts=1),
    "before-it-commits-the-end": Pause(Moment.END, attempts=1),
}


@attrs.frozen
class Late:
    """What was true before the late workers went on, and the runs they were given after that."""

    fleet: Fleet
    run_ids: Mapping[str, RunId]
    states: Mapping[str, Any]
    next_run_ids: Mapping[str, RunId]


@pytest.fixture(scope="module")
def late(shared_fleet: Fleet) -> Late:
    """Each case on a lane of its own: one worker stands still, another one comes, the first wakes.

    Then the other one leaves, and the late one gets a run that it may keep.
    """
    fleet = shared_fleet
    fleet.heal()
    run_ids = {name: new_id(name) for name in PAUSES}
    fleet.releases |= {f"worker-{name}": name for name in PAUSES}
    fleet.releases |= {f"worker-next-{name}": name for name in PAUSES}
    fleet.start(*(f"worker-{name}" for name in PAUSES))
    with ExitStack() as stack:
        moments = {
            name: stack.enter_context(held(fleet.truth, fleet.dsn, pause.moment, run_ids[name]))
            for name, pause in PAUSES.items()
        }
        for name, run_id in run_ids.items():
            fleet.submit_as({run_id: short(7)}, {"absurdReleaseId": name})
        for name, moment in moments.items():
            moment.wait()
            fleet.roles[f"worker-{name}"].pause()
            moment.prevent()
    fleet.start(*(f"worker-next-{name}" for name in PAUSES))
    fleet.truth.wait_ended(list(run_ids.values()))
    fleet.assert_sound()
    states = {name: fleet.truth.rows(STATE, run_id) for name, run_id in run_ids.items()}
    for name in PAUSES:
        wake(fleet, name)
    next_run_ids = {name: new_id(f"next-{name}") for name in PAUSES}
    for name, run_id in next_run_ids.items():
        fleet.submit_as({run_id: short(8)}, {"absurdReleaseId": name})
    fleet.truth.wait_ended(list(next_run_ids.values()))
    fleet.assert_sound()
    return Late(fleet, run_ids, states, next_run_ids)


@pytest.mark.parametrize("name", PAUSES)
def test_nothing_that_a_late_worker_does_counts(name: str, late: Late) -> None:
    """The other worker's end stands to the last byte, and what the late one made is cleared up."""
    fleet, run_id = late.fleet, late.run_ids[name]

    assert fleet.truth.rows(STATE, run_id) == late.states[name]
    assert fleet.truth.result(run_id)["output"] == {"answer": 7}
    assert fleet.witness.words(run_id) == {"started": 1}
    assert fleet.truth.attempts(run_id) == PAUSES[name].attempts


@pytest.mark.parametrize("name", PAUSES)
def test_a_late_worker_goes_on_to_claim(name: str, late: Late) -> None:
    """It has lost a run and nothing else."""
    assert late.fleet.roles[f"worker-{name}"].running
    assert late.fleet.truth.result(late.next_run_ids[name])["output"] == {"answer": 8}


def wake(fleet: Fleet, name: str) -> None:
    """Let a late worker go on until it has noticed; the other one of its lane leaves."""
    worker = fleet.roles[f"worker-{name}"]
    said = len(worker.said())
    worker.go_on()
    fleet.truth.wait_for(lambda: "run_cut" in worker.said()[said:], "it does not notice")
    assert fleet.roles[f"worker-next-{name}"].finish() == 0
