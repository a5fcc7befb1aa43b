"""How lanes stand, and which may be removed (C56, C57, F53, F54, F55)."""

from datetime import timedelta

import pytest

from deepline.core.lane_standing import (
    Kept,
    Prunable,
    Standing,
    may_prune,
    standing_of,
    stranded_runs,
)
from deepline.core.model.identity import Lane
from deepline.core.model.lane import LaneState
from deepline.core.queues import BASE_QUEUE
from tests.core.lanes import LOST, lane, worker

DAY = timedelta(days=1)
LONG_AGO_S = 100_000
LEAVING = worker("w2", leaving=True)


@pytest.mark.parametrize(
    ("state", "standing"),
    [
        pytest.param(lane(worker(), parked=1), Standing.SERVED, id="C57-served"),
        pytest.param(lane(worker(), LEAVING), Standing.SERVED, id="C57-one-stays"),
        pytest.param(lane(LEAVING, parked=1), Standing.DRAINING, id="C57-all-leave"),
        pytest.param(lane(worker(), draining=True), Standing.DRAINING, id="C57-drained"),
        pytest.param(
            lane(worker(adopted=True), worker(seen_s=46), parked=1),
            Standing.ADOPTED,
            id="C56-adopted",
        ),
        pytest.param(lane(worker(seen_s=45), parked=1), Standing.STRANDED, id="F53-stranded"),
        pytest.param(lane(queued=1, draining=True), Standing.STRANDED, id="F54-drained-stranded"),
        pytest.param(lane(worker(seen_s=45)), Standing.RETIRED, id="F55-retired"),
    ],
)
def test_a_lane_stands_by_who_was_seen_lately(state: LaneState, standing: Standing) -> None:
    """Workers that fell silent do not count, whatever the registry was told before."""
    assert standing_of(state, LOST) is standing


def test_stranded_runs_are_counted() -> None:
    """Only those of lanes that nobody serves; a task without its run counts too."""
    assert stranded_runs(lane(parked=2, queued=3), LOST) == 5
    assert stranded_runs(lane(worker(adopted=True), parked=2), LOST) == 0


@pytest.mark.parametrize(
    ("state", "rule"),
    [
        pytest.param(lane(name=Lane(BASE_QUEUE), claimed_s=LONG_AGO_S), "base", id="F55-base"),
        pytest.param(lane(worker()), "in_use", id="F55-served"),
        pytest.param(lane(parked=1, claimed_s=LONG_AGO_S), "in_use", id="F55-stranded"),
        pytest.param(lane(claimed_s=60), "recent", id="F55-claimed-lately"),
        pytest.param(lane(claimed_s=None, made_s=60), "recent", id="F55-made-lately"),
        pytest.param(
            lane(worker(seen_s=60), claimed_s=LONG_AGO_S, made_s=LONG_AGO_S),
            "recent",
            id="F55-left",
        ),
    ],
)
def test_a_lane_in_use_is_kept(state: LaneState, rule: str) -> None:
    """Whatever may still be needed stays, with the reason in words."""
    decision = may_prune(state, unused_for=DAY, lost_after=LOST)

    assert isinstance(decision, Kept)
    assert decision.why.rule == f"lane_prune.{rule}"
    assert decision.reason


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(lane(claimed_s=LONG_AGO_S, made_s=LONG_AGO_S), id="F55-unused-for-long"),
        pytest.param(lane(claimed_s=60, draining=True), id="F55-drained-by-an-operator"),
    ],
)
def test_a_lane_that_is_over_may_go(state: LaneState) -> None:
    """It holds nothing, nobody serves it, and nobody will."""
    assert isinstance(may_prune(state, unused_for=DAY, lost_after=LOST), Prunable)
