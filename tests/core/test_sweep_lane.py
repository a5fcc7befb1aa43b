"""A provider's lane in a pass: who is due, how many at a time, and the cursor (C39, A17, Q46)."""

import attrs
import pytest

from deepline.core.model.identity import RunId
from deepline.core.model.stale_runner import StaleRunner
from deepline.core.sweep import ReadCounts, SweepState, marked
from deepline.core.sweep_lane import (
    Lane,
    LaneEnd,
    after_lane,
    after_recorded,
    is_blind,
    next_cursor,
    plan_lane,
)
from tests.core.sweeping import SETTINGS, begun, key, recorded, runner, runners

SMALL = attrs.evolve(SETTINGS, page=3)


def test_a_lane_is_its_provider_s_alone() -> None:
    """Pages are apart, so that a slow provider uses up nothing of another's."""
    stale = [*runners("run-1", "run-3"), *runners("run-2", provider="modal")]

    lane = plan_lane(SweepState(), "daytona", stale, SETTINGS)

    assert [one.ref.run_id for one in lane.page] == ["run-1", "run-3"]
    assert (lane.due, lane.not_due) == (lane.page, 0)


def test_who_was_just_read_is_not_due() -> None:
    """A mark of an earlier pass keeps a sandbox from being read again too soon (I37)."""
    state = marked(SweepState(), key("run-2"), 0.0, SETTINGS)

    lane = plan_lane(state, "daytona", runners("run-1", "run-2", "run-3"), SETTINGS)

    assert [one.ref.run_id for one in lane.due] == ["run-1", "run-3"]
    assert lane.not_due == 1


@pytest.mark.parametrize(
    ("in_flight", "width"),
    [
        pytest.param(0, 3, id="all-free"),
        pytest.param(2, 1, id="two-hang"),
        pytest.param(3, 0, id="all-hang"),
        pytest.param(4, 0, id="never-negative"),
    ],
)
def test_reads_of_earlier_passes_keep_their_slots(in_flight: int, width: int) -> None:
    """What still runs narrows the lane at the start of the pass (I34)."""
    state = SweepState(reads={"daytona": ReadCounts(in_flight=in_flight)})

    assert plan_lane(state, "daytona", [runner()], SETTINGS).width == width
    assert plan_lane(state, "modal", [runner()], SETTINGS).width == 3


@pytest.mark.parametrize(
    ("due", "answered", "blind"),
    [
        pytest.param(0, 0, False, id="nothing-was-due"),
        pytest.param(2, 0, True, id="nothing-was-answered"),
        pytest.param(2, 1, False, id="one-answer-is-sight"),
    ],
)
def test_when_a_provider_is_blind(due: int, answered: int, blind: bool) -> None:
    """Something due and no answer: its silence says nothing about its sandboxes (C43.3)."""
    page = [runner(f"run-{n}") for n in range(2)]
    lane = Lane(provider="daytona", page=page, due=page[:due], width=3)

    assert is_blind(lane, LaneEnd(visited=due, answered=answered)) is blind


A, B, C, D = (runner(f"run-{letter}") for letter in "abcd")
START = RunId("run-0")


@pytest.mark.parametrize(
    ("page", "due", "visited", "cursor"),
    [
        pytest.param([A, B, C], [A, B, C], 0, START, id="none-had-its-turn-stays"),
        pytest.param([A, B, C], [A, B, C], 2, "run-b", id="some-had-theirs-goes-on-behind"),
        pytest.param([A, B, C], [C], 0, START, id="none-of-the-due-stays"),
        pytest.param([A, B, C], [A, B], 2, "run-c", id="all-due-and-a-full-page-goes-on"),
        pytest.param([A, B, C], [], 0, "run-c", id="none-due-and-a-full-page-goes-on"),
        pytest.param([A, B], [A, B], 2, None, id="all-due-and-a-short-page-wraps"),
        pytest.param([A, B], [], 0, None, id="none-due-and-a-short-page-wraps"),
        pytest.param([A, B], [A, B], 1, "run-a", id="a-short-page-is-finished-first"),
        pytest.param([], [], 0, None, id="an-empty-page-wraps"),
    ],
)
def test_the_cursor(
    page: list[StaleRunner], due: list[StaleRunner], visited: int, cursor: str | None
) -> None:
    """Behind the last that had its turn; behind the page when all had; else the beginning."""
    assert next_cursor(START, page, due, visited, limit=3) == cursor


def test_the_cursor_of_a_lane_moves_alone() -> None:
    """A provider that wraps begins anew, and others stay where they are."""
    state, sweep_pass = begun(
        SweepState(after={"daytona": RunId("run-9"), "modal": RunId("run-5")})
    )
    lane = plan_lane(state, "daytona", runners("run-a"), SMALL)

    wrapped = after_lane(state, sweep_pass, lane, LaneEnd(visited=1, answered=1), SMALL)
    assert wrapped.after == {"modal": "run-5"}

    lane = plan_lane(state, "daytona", runners("run-a", "run-b", "run-c"), SMALL)
    moved = after_lane(state, sweep_pass, lane, LaneEnd(visited=3, answered=3), SMALL)
    assert moved.after == {"daytona": "run-c", "modal": "run-5"}


def test_an_overtaken_pass_moves_no_cursor() -> None:
    """The late end of a pass cannot undo what a newer one knows (A17, Q46)."""
    state, old = begun(SweepState(after={"daytona": RunId("run-5")}, after_recorded=RunId("run-5")))
    state, _ = begun(state, 1.0)
    lane = plan_lane(state, "daytona", runners("run-a"), SMALL)

    assert after_lane(state, old, lane, LaneEnd(visited=1, answered=1), SMALL) is state
    assert after_recorded(state, old, [recorded("run-a")], 1, SMALL) is state


def test_recorded_terminals_are_walked_too() -> None:
    """One that cannot be settled does not keep those behind it waiting."""
    state, sweep_pass = begun()
    page = [recorded("run-a"), recorded("run-b"), recorded("run-c")]

    some = after_recorded(state, sweep_pass, page, 2, SMALL)
    every = after_recorded(state, sweep_pass, page, 3, SMALL)
    assert [one.key for one in page] == [key("run-a"), key("run-b"), key("run-c")]
    short = after_recorded(every, sweep_pass, page[:1], 1, SMALL)

    assert (some.after_recorded, every.after_recorded) == ("run-b", "run-c")
    assert short.after_recorded is None
