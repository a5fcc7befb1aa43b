"""One release takes over from another while runs are parked, running and queued (C56, C57, F53)."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from deepline.core.model.identity import RunId
from tests.support.fleet import Fleet, rows, short

pytestmark = [pytest.mark.processes, pytest.mark.slow]

OLD, NEW = "worker-april", "worker-may"
APRIL = {"absurdReleaseId": "april"}
BRISK = {
    "ABSURD_LANE_ADOPTION_DISCOVERY_INTERVAL_MS": "500",
    "DEEPLINE_DRAIN_POLL_SECONDS": "1",
    "DEEPLINE_LANE_WORKER_LOST_SECONDS": "4",
    "DEEPLINE_LANE_QUIET_SECONDS": "4",
}
"""Periods of lanes as short as a busy machine bears."""


def waits(answer: int, nap_s: float = 0) -> dict[str, Any]:
    """A play that sleeps without a sandbox, or waits for an event."""
    return {"do": "waits", "answer": answer, "nap_s": nap_s}


def parked(fleet: Fleet, run_id: RunId, rule: str) -> bool:
    """Whether the play is suspended, and not only in its sandbox."""
    standing = fleet.truth.statuses([run_id])
    return standing == {run_id: "waiting"} and fleet.truth.rules(run_id)[-1] == rule


def assert_ended_once(fleet: Fleet, run_ids: Sequence[RunId]) -> None:
    """Every run completed, with one terminal fact, in one attempt."""
    assert set(fleet.truth.statuses(run_ids).values()) == {"completed"}
    ends = fleet.truth.rows(
        "select run_id, count(*) from deepline.outbox where run_id = any (%s)"
        " and event_id = 'run-terminal:' || run_id group by 1",
        list(run_ids),
    )
    assert dict(ends) == dict.fromkeys(run_ids, 1)
    assert {fleet.truth.attempts(run_id) for run_id in run_ids} == {1}


def test_a_release_hands_over_and_leaves(fleet: Fleet) -> None:
    """The old worker ends with 0; the new one wakes what it parked; every run ends once."""
    fleet.releases |= {OLD: "april", NEW: "may"}
    fleet.start(OLD, NEW, extra=BRISK)
    nap, event, working = fleet.submit(
        waits(1, nap_s=2), waits(2), rows(8, pause_s=1), options=APRIL
    )
    fleet.truth.wait_for(
        lambda: (
            parked(fleet, event, "parking.integration_event") and fleet.truth.rows_done(working) > 0
        ),
        "nothing is under way",
    )

    drained = fleet.command("lanes", "drain", "april")
    [late] = fleet.submit(short(3), options=APRIL)
    code = fleet.roles[OLD].wait()
    listed = fleet.command("lanes", "list", "--json")
    before = fleet.truth.statuses([event])
    fleet.api.call(lambda client: client.signal(event, "go", {}))
    run_ids = [nap, event, working, late]
    fleet.truth.wait_ended(run_ids)
    fleet.assert_sound()

    assert "1 worker of its own will end with code 0" in drained.stdout, drained.stderr
    assert code == 0, fleet.roles[OLD].said()[-2000:]
    assert "lane_drained" in fleet.roles[OLD].said()
    lanes = {lane["releaseId"]: lane for lane in map(json.loads, listed.stdout.splitlines())}
    april = lanes["april"]
    assert (april["standing"], april["stranded"]) == ("adopted", 0), listed.stderr
    # The worker of the base lane may have come too.
    assert "may" in [one["releaseId"] for one in april["workers"] if one["adopted"]]
    assert all(one["adopted"] for one in april["workers"])
    assert before == {event: "waiting"}
    assert_ended_once(fleet, run_ids)
    for run_id in (nap, event):
        assert fleet.witness.words(run_id) == {"started": 2, "first": 1, "woken": 1}
    assert fleet.witness.count(working, "started") == 1


def test_a_release_that_died_is_adopted(fleet: Fleet) -> None:
    """Nobody declares anything: its parked run is taken when its lane was quiet, and ends once."""
    fleet.releases |= {"worker-dead": "dead", NEW: "may"}
    fleet.start("worker-dead", NEW, extra=BRISK)
    [napping] = fleet.submit(waits(1, nap_s=1), options={"absurdReleaseId": "dead"})
    fleet.truth.wait_for(lambda: parked(fleet, napping, "parking.sleep"), "it does not sleep")
    fleet.roles["worker-dead"].kill()
    fleet.truth.wait_ended([napping])
    fleet.assert_sound()

    assert_ended_once(fleet, [napping])
    assert "lane_adoption.quiet" in fleet.roles[NEW].said()
