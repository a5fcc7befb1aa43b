"""A worker stands still past its lease and goes on when another has its run (I04, F36)."""

import pytest

from tests.support.fleet import Fleet, new_id, short
from tests.support.moments import Moment, held

pytestmark = [pytest.mark.processes, pytest.mark.slow]
STATE = """
    select r.status, r.terminal, r.terminal_at, r.why, r.next_seq, a.worker, a.lease_token
      from deepline.runs r
      join deepline.attempts a on a.run_id = r.run_id and a.attempt = r.attempt
     where r.run_id = %s
"""


@pytest.mark.parametrize(
    ("at", "attempts"),
    [
        pytest.param(Moment.BIND, 2, id="before-it-binds-its-sandbox"),
        pytest.param(Moment.PARK, 1, id="before-it-parks"),
        pytest.param(Moment.END, 1, id="before-it-commits-the-end"),
    ],
)
def test_nothing_that_a_late_worker_does_counts(at: Moment, attempts: int, fleet: Fleet) -> None:
    """The other worker's end stands to the last byte, and what the late one made is cleared up."""
    run_id = new_id("late")
    late = fleet.roles["worker"]
    with held(fleet.truth, fleet.dsn, at, run_id) as moment:
        fleet.submit_as({run_id: short(7)})
        moment.wait()
        late.pause()
        moment.prevent()
    fleet.start("worker-2")
    fleet.truth.wait_ended([run_id])
    fleet.assert_sound()
    before = fleet.truth.rows(STATE, run_id)
    said = len(late.said())
    late.go_on()
    fleet.truth.wait_for(
        lambda: any(event in late.said()[said:] for event in ("run_cut", "lease lost")),
        "the late worker does not notice",
    )
    # It goes on to claim, and only what it then claims is its own.
    fleet.roles["worker-2"].close()
    [next_run] = fleet.submit(short(8))
    fleet.truth.wait_ended([next_run])

    fleet.assert_sound()
    assert late.running
    assert fleet.truth.rows(STATE, run_id) == before
    assert fleet.truth.result(run_id)["output"] == {"answer": 7}
    assert fleet.truth.result(next_run)["output"] == {"answer": 8}
    assert fleet.witness.words(run_id) == {"started": 1}
    assert (
        fleet.truth.value("select attempt from deepline.runs where run_id = %s", run_id) == attempts
    )
