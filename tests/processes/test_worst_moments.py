"""The worker dies exactly between two of its steps; what was committed goes on, the rest is undone.

`done`: the statement in flight commits, and the dead worker never learns of it. `undone`: it dies
with its worker.
"""

import attrs
import pytest

from deepline.core.model.identity import RunId
from tests.support.fleet import Fleet, new_id, short
from tests.support.moments import Moment, held

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@attrs.frozen(kw_only=True)
class Case:
    """A death: at which moment, whether the statement still happens, and what that leads to."""

    moment: Moment
    done: bool
    rule: str | None
    attempts: int


CASES = [
    pytest.param(
        Case(moment=Moment.CLAIM, done=True, rule="claim.lease_lost", attempts=2),
        id="claimed-and-nothing-more",
    ),
    pytest.param(
        Case(moment=Moment.CLAIM, done=False, rule=None, attempts=1),
        id="while-claiming",
    ),
    pytest.param(
        Case(moment=Moment.RESERVE, done=True, rule="claim.lease_lost", attempts=2),
        id="reserved-but-nothing-created",
    ),
    pytest.param(
        Case(moment=Moment.BIND, done=False, rule="claim.lease_lost", attempts=2),
        id="created-but-not-bound",
    ),
    pytest.param(
        Case(moment=Moment.BIND, done=True, rule="claim.taken_over", attempts=1),
        id="bound-but-not-started",
    ),
    pytest.param(
        Case(moment=Moment.PARK, done=False, rule="claim.taken_over", attempts=1),
        id="started-but-not-parked",
    ),
    pytest.param(
        Case(moment=Moment.PARK, done=True, rule=None, attempts=1),
        id="parked-and-nobody-there",
    ),
    pytest.param(
        Case(moment=Moment.END, done=False, rule=None, attempts=1),
        id="decided-but-not-committed",
    ),
    pytest.param(
        Case(moment=Moment.END, done=True, rule=None, attempts=1),
        id="committed-but-nothing-delivered",
    ),
    pytest.param(
        Case(moment=Moment.DELETE, done=False, rule=None, attempts=1),
        id="ended-but-nothing-deleted",
    ),
    pytest.param(
        Case(moment=Moment.DELETED, done=False, rule=None, attempts=1),
        id="deleted-but-nobody-wrote-it-down",
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_the_worker_dies_between_two_steps(case: Case, fleet: Fleet) -> None:
    """Another worker finishes the run; its play starts once, and no sandbox is left."""
    run_id = new_id("worst")
    with held(fleet.truth, fleet.dsn, case.moment, run_id) as moment:
        fleet.submit_as({run_id: short(42)})
        moment.wait()
        worker = fleet.roles["worker"]
        if case.done:
            worker.pause()
            moment.let_happen()
        worker.kill()
        moment.prevent()
    fleet.start("worker")
    fleet.truth.wait_ended([run_id])

    fleet.assert_sound()
    assert fleet.truth.result(run_id)["output"] == {"answer": 42}
    assert fleet.witness.words(run_id) == {"started": 1}
    assert attempts_of(fleet, run_id) == case.attempts
    if case.rule is not None:
        assert case.rule in rules_of(fleet, run_id)


def attempts_of(fleet: Fleet, run_id: RunId) -> int:
    """How many attempts it took."""
    count = fleet.truth.value("select attempt from deepline.runs where run_id = %s", run_id)
    return int(count)


def rules_of(fleet: Fleet, run_id: RunId) -> set[str]:
    """The rules by which it was decided about."""
    found = fleet.truth.rows("select rule from deepline.decisions where run_id = %s", run_id)
    return {rule for (rule,) in found}
