"""Which lanes are adopted, and what changes when that changes (C56, Q04, Q43, I48)."""

from datetime import timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.lane_adoption import (
    Adoption,
    AdoptionPolicy,
    AdoptionSettings,
    judge,
    plan,
    wanted,
)
from deepline.core.model.identity import Lane
from deepline.core.model.lane import LaneState, LaneWorker
from deepline.core.model.why import Why
from tests.core.lanes import OLD, OWN, lane, named, worker

SETTINGS = AdoptionSettings()
BEGUN, ALL, OFF = AdoptionPolicy.BEGUN, AdoptionPolicy.ALL, AdoptionPolicy.OFF
RETURNED = worker()
LEAVING = worker(leaving=True)
GONE = worker(seen_s=400)
ADOPTER = worker("w9", adopted=True)


@pytest.mark.parametrize(
    ("state", "policy", "rule", "admits"),
    [
        pytest.param(lane(name=OWN, parked=1), BEGUN, "own", None, id="C56-own-lane"),
        pytest.param(lane(parked=1, draining=True), OFF, "off", None, id="C56-policy-off"),
        pytest.param(lane(draining=True), ALL, "holds_nothing", None, id="C56-holds-nothing"),
        pytest.param(lane(RETURNED, parked=1), ALL, "served", None, id="C56-served"),
        pytest.param(
            lane(RETURNED, parked=1, handed_over=True), ALL, "served", None, id="C56-served-again"
        ),
        pytest.param(
            lane(RETURNED, parked=1, draining=True),
            BEGUN,
            "draining",
            True,
            id="C56-drained",
        ),
        pytest.param(lane(queued=1, draining=True), BEGUN, "draining", True, id="C56-drained-left"),
        pytest.param(
            lane(queued=1, claimed_s=2, handed_over=True),
            BEGUN,
            "handed_over",
            True,
            id="C56-handed-over",
        ),
        pytest.param(
            lane(LEAVING, parked=1), BEGUN, "workers_leaving", False, id="C56-workers-leaving"
        ),
        pytest.param(
            lane(LEAVING, queued=1), BEGUN, "nothing_begun", None, id="C56-leaving-queued-only"
        ),
        pytest.param(
            lane(LEAVING, RETURNED, parked=1), BEGUN, "served", None, id="C56-one-worker-stays"
        ),
        pytest.param(
            lane(parked=1, claimed_s=299), BEGUN, "not_quiet_yet", None, id="Q43-just-claimed"
        ),
        pytest.param(
            lane(worker(seen_s=60), parked=1), BEGUN, "not_quiet_yet", None, id="Q43-just-gone"
        ),
        pytest.param(
            lane(queued=1, claimed_s=None, made_s=20),
            ALL,
            "not_quiet_yet",
            None,
            id="Q43-made",
        ),
        pytest.param(lane(parked=1, claimed_s=300), BEGUN, "quiet", False, id="Q43-quiet-parked"),
        pytest.param(lane(GONE, running=1), BEGUN, "quiet", False, id="Q43-quiet-running"),
        pytest.param(
            lane(GONE, ADOPTER, parked=1, claimed_s=1),
            BEGUN,
            "quiet",
            False,
            id="C56-adopted",
        ),
        pytest.param(
            lane(queued=1, claimed_s=None), BEGUN, "nothing_begun", None, id="Q43-queued-begun"
        ),
        pytest.param(lane(queued=1, claimed_s=None), ALL, "quiet", True, id="Q43-queued-all"),
    ],
)
def test_a_lane_is_adopted_or_left(
    state: LaneState,
    policy: AdoptionPolicy,
    rule: str,
    admits: bool | None,
) -> None:
    """The first row that applies decides, and says whether queued runs may begin there."""
    decision = judge(state, OWN, attrs.evolve(SETTINGS, policy=policy))

    assert decision.why.rule == f"lane_adoption.{rule}"
    assert (decision.admits if isinstance(decision, Adoption) else None) is admits


def test_the_oldest_work_comes_first() -> None:
    """Then the release decides, so that all workers choose alike; more than fit are left out."""
    young, old = lane(parked=1, oldest_s=400), lane(parked=1, oldest_s=900)
    queued = lane(queued=1, claimed_s=None)
    states = [*named("dc", young), *named("z", old), *named("a", queued), lane(name=OWN, parked=1)]
    settings = AdoptionSettings(policy=ALL, lanes_max=3)

    assert [one.lane for one in wanted(states, OWN, settings)] == ["z", "c", "d"]
    unbounded = attrs.evolve(settings, lanes_max=8)
    assert [one.lane for one in wanted(states, OWN, unbounded)] == ["z", "c", "d", "a"]


def adoption(name: str) -> Adoption:
    """An adoption of a lane."""
    return Adoption(lane=Lane(name), release_id=None, admits=False, why=Why("test"))


@pytest.mark.parametrize(
    ("attached", "draining", "asked", "detach", "attach"),
    [
        pytest.param("", "", "ab", "", "ab", id="C56-attach"),
        pytest.param("ab", "", "ab", "", "", id="C56-nothing-changes"),
        pytest.param("ab", "", "b", "a", "", id="C56-unwanted-detached"),
        pytest.param("", "a", "a", "", "", id="C56-still-draining"),
        pytest.param("ab", "", "bcd", "a", "c", id="C56-a-draining-one-keeps-its-place"),
        pytest.param("a", "bc", "ad", "", "", id="C56-full"),
    ],
)
def test_a_plan_changes_as_little_as_it_can(
    attached: str, draining: str, asked: str, detach: str, attach: str
) -> None:
    """Unwanted lanes are let go of, wanted ones taken while there is room for three (I48)."""
    made = plan(
        attached=[Lane(name) for name in attached],
        draining=[Lane(name) for name in draining],
        wanted=[adoption(name) for name in asked],
        lanes_max=3,
    )

    assert "".join(made.detach) == detach
    assert "".join(one.lane for one in made.attach) == attach


LANES = st.sets(st.sampled_from("abcdefghij"))


@given(LANES, LANES, st.lists(st.sampled_from("abcdefghij"), unique=True), st.integers(0, 6))
def test_adopted_lanes_are_bounded(
    attached: set[str], draining: set[str], asked: list[str], lanes_max: int
) -> None:
    """Attached and draining lanes never become more than the bound, whatever was before (I48)."""
    before = {*attached, *draining}
    made = plan(
        attached=[Lane(name) for name in sorted(attached - draining)],
        draining=[Lane(name) for name in sorted(draining)],
        wanted=[adoption(name) for name in asked],
        lanes_max=lanes_max,
    )
    after = {*before, *(one.lane for one in made.attach)}

    assert len(after) <= max(lanes_max, len(before))
    assert set(made.detach) == attached - draining - set(asked)
    assert not {one.lane for one in made.attach} & before


@given(
    st.builds(
        lane,
        *[],
        parked=st.integers(0, 1),
        queued=st.integers(0, 1),
        claimed_s=st.none() | st.sampled_from([1.0, 400.0]),
        draining=st.booleans(),
        handed_over=st.booleans(),
    ),
    st.lists(st.sampled_from([RETURNED, LEAVING, GONE, ADOPTER]), max_size=3),
    st.sampled_from(AdoptionPolicy),
)
def test_a_lane_with_a_worker_that_stays_is_left_unless_drained(
    state: LaneState, workers: list[LaneWorker], policy: AdoptionPolicy
) -> None:
    """Nobody takes work from those who do it; and what holds nothing is nobody's to take."""
    state = attrs.evolve(state, workers=tuple(workers))
    decision = judge(state, OWN, attrs.evolve(SETTINGS, policy=policy))

    if isinstance(decision, Adoption):
        assert state.open_tasks > 0
        assert policy is not OFF
        assert state.draining or RETURNED not in workers


def test_a_lane_is_quiet_for_as_long_as_the_settings_say() -> None:
    """The length is a setting (Q43)."""
    state = lane(parked=1, claimed_s=20)
    short = attrs.evolve(SETTINGS, quiet_after=timedelta(seconds=20))

    assert isinstance(judge(state, OWN, short), Adoption)
    assert state.lane == OLD
