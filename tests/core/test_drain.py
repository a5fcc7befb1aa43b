"""When a worker that is to leave may leave (C57, Q25)."""

import pytest

from deepline.core.drain import Drained, KeepServing, next_reading
from deepline.core.model.lane import LaneState
from tests.core.lanes import LOST, OWN, lane, worker

ADOPTER = worker("w9", adopted=True)


@pytest.mark.parametrize(
    ("state", "in_hand", "rule"),
    [
        pytest.param(lane(name=OWN), 0, "empty", id="C57-empty"),
        pytest.param(None, 0, "empty", id="C57-pruned"),
        pytest.param(lane(name=OWN), 1, None, id="C57-in-hand"),
        pytest.param(lane(name=OWN, parked=1), 0, None, id="C57-parked"),
        pytest.param(lane(name=OWN, queued=1), 0, None, id="C57-queued"),
        pytest.param(lane(ADOPTER, name=OWN, parked=1), 0, "adopted", id="C57-adopted"),
        pytest.param(lane(ADOPTER, name=OWN, parked=1), 1, None, id="C57-adopted-in-hand"),
        pytest.param(lane(ADOPTER, name=OWN, queued=1), 0, None, id="C57-adopted-not-queued"),
        pytest.param(
            lane(ADOPTER, name=OWN, queued=1, draining=True), 0, "adopted", id="C57-adopted-whole"
        ),
        pytest.param(
            lane(worker("w9", adopted=True, seen_s=50), name=OWN, parked=1),
            0,
            None,
            id="C57-adopter-lost",
        ),
    ],
)
def test_two_readings_that_find_nothing_let_a_worker_go(
    state: LaneState | None, in_hand: int, rule: str | None
) -> None:
    """One that finds something begins the count again."""
    first = next_reading(state, in_hand=in_hand, readings=0, lost_after=LOST)
    second = next_reading(state, in_hand=in_hand, readings=1, lost_after=LOST)

    assert isinstance(first, KeepServing)
    if rule is None:
        assert second == first
        assert (first.readings, first.why.rule) == (0, "drain.holds_work")
    else:
        assert first.readings == 1
        assert second == Drained(why=first.why)
        assert first.why.rule == f"drain.{rule}"
