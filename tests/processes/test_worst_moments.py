"""A worker dies exactly between two of its steps; what was committed goes on, the rest is undone.

`done`: the statement in flight commits, and the dead worker never learns of it. Else it dies with
its worker. Each case has a lane of its own, so that all of them happen at once.
"""

from collections.abc import Mapping
from contextlib import ExitStack

import attrs
import pytest

from deepline.core.model.identity import RunId
from tests.support.fleet import Fleet, new_id, short
from tests.support.moments import HeldMoment, Moment, held

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@attrs.frozen
class Death:
    """At which moment, whether the statement still happens, and what the run then goes through."""

    moment: Moment
    done: bool
    attempts: int = 1
    rule: str | None = None


DEATHS: Mapping[str, Death] = {
    "while-claiming": Death(Moment.CLAIM, done=False),
    "claimed-and-nothing-more": Death(Moment.CLAIM, done=True, attempts=2, rule="claim.lease_lost"),
    "reserved-but-nothing-created": Death(
        Moment.RESERVE, done=True, attempts=2, rule="claim.lease_lost"
    ),
    "created-but-not-bound": Death(Moment.BIND, done=False, attempts=2, rule="claim.lease_lost"),
    "bound-but-not-started": Death(Moment.BIND, done=True, rule="claim.taken_over"),
    # The next worker may take this one over, or a controller settle what its runner has pushed.
    "started-but-not-parked": Death(Moment.PARK, done=False),
    "parked-and-nobody-there": Death(Moment.PARK, done=True),
    "decided-but-not-committed": Death(Moment.END, done=False),
    "committed-but-nothing-delivered": Death(Moment.END, done=True),
    "ended-but-nothing-deleted": Death(Moment.DELETE, done=False),
    "deleted-but-nobody-wrote-it-down": Death(Moment.DELETED, done=False),
}


@attrs.frozen
class Survived:
    """The runs by how their worker died, after another worker of their lane came."""

    fleet: Fleet
    run_ids: Mapping[str, RunId]


@pytest.fixture(scope="module")
def survived(shared_fleet: Fleet) -> Survived:
    """Let all of it happen, and audit what is left."""
    fleet = shared_fleet
    fleet.heal()
    run_ids = {name: new_id(name) for name in DEATHS}
    fleet.releases |= {worker_of(name): name for name in DEATHS}
    fleet.start(*map(worker_of, DEATHS))
    with ExitStack() as stack:
        moments = {
            name: stack.enter_context(held(fleet.truth, fleet.dsn, death.moment, run_ids[name]))
            for name, death in DEATHS.items()
        }
        for name, run_id in run_ids.items():
            fleet.submit_as({run_id: short(name)}, {"absurdReleaseId": name})
        for name, death in DEATHS.items():
            die(fleet, worker_of(name), moments[name], done=death.done)
    fleet.start(*map(worker_of, DEATHS))
    fleet.truth.wait_ended(list(run_ids.values()))
    fleet.assert_sound()
    return Survived(fleet, run_ids)


@pytest.mark.parametrize("name", DEATHS)
def test_a_worker_dies_between_two_steps(name: str, survived: Survived) -> None:
    """Another one finishes the run, whose play starts once; the audit finds nothing wrong."""
    fleet, run_id, death = survived.fleet, survived.run_ids[name], DEATHS[name]

    assert fleet.truth.result(run_id)["output"] == {"answer": name}
    assert fleet.witness.words(run_id) == {"started": 1}
    assert fleet.truth.attempts(run_id) == death.attempts
    if death.rule is not None:
        assert death.rule in fleet.truth.rules(run_id)


def worker_of(name: str) -> str:
    """The worker of a case."""
    return f"worker-{name}"


def die(fleet: Fleet, worker: str, moment: HeldMoment, *, done: bool) -> None:
    """Kill a worker that stands still at a moment."""
    moment.wait()
    if done:
        fleet.roles[worker].pause()
        moment.let_happen()
    fleet.roles[worker].kill()
    moment.prevent()
