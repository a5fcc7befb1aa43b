"""Nobody waits for ever for the sweep, whoever else comes, goes or hangs: I34, I38, I39."""

from collections.abc import Sequence

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from deepline.core.model.stale_runner import RecordedTerminal, StaleRunner
from deepline.core.sweep import ReadCounts, SweepSettings, SweepState, begin_pass, marked
from deepline.core.sweep_lane import LaneEnd, after_lane, after_recorded, plan_lane
from deepline.core.sweep_read import ReadPhase, end_read, take_slot
from tests.core.sweeping import recorded, runner

SETTINGS = SweepSettings(page=6)
INTERVAL_S = SETTINGS.interval.total_seconds()
MARKED_PASSES = int(SETTINGS.recheck.total_seconds() // INTERVAL_S)
CROWD = 9
PATIENT = 7
"""Who stays stale whatever happens, with others before it and behind it."""
OTHERS = st.sampled_from([number for number in range(CROWD) if number != PATIENT])
PASSES_MAX = 2 * (CROWD + 1) + MARKED_PASSES


def page_of(after: str | None, stale: Sequence[StaleRunner]) -> list[StaleRunner]:
    """What the store answers: in order, behind the cursor, at most one page."""
    return [one for one in stale if after is None or one.ref.run_id > after][: SETTINGS.page]


class Crowd(RuleBasedStateMachine):
    """One provider; others fall silent and recover between passes, and reads hang for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.state = SweepState()
        self.now_s = 0.0
        self.everyone = [runner(f"run-{number:02}") for number in range(CROWD)]
        self.stale = set(range(CROWD))
        self.hung: list[ReadPhase] = []
        self.passes_without = 0

    @rule(changed=st.sets(OTHERS), turns=st.integers(1, 3), hang=st.booleans(), end=st.booleans())
    def makes_a_pass(self, changed: set[int], turns: int, hang: bool, end: bool) -> None:
        """Others fall silent or are heard again; the provider answers at least one read.

        Another read may hang and keep its slot, and one that hung may end.
        """
        self.stale ^= changed
        if end and self.hung:
            self.state, _ = end_read(self.state, "daytona", self.hung.pop())
        found = [self.everyone[number] for number in sorted(self.stale)]
        self.state, begun = begin_pass(self.state, self.now_s, SETTINGS)
        page = page_of(self.state.after.get("daytona"), found)
        lane = plan_lane(self.state, "daytona", page, SETTINGS)
        visited = min(turns, len(lane.due)) if lane.width else 0
        keys = [one.key for one in lane.due[:visited]]
        for key in keys:
            self.state = marked(self.state, key, self.now_s, SETTINGS)
        if hang and visited and lane.width > 1:
            self.state = take_slot(self.state, "daytona")
            self.hung.append(ReadPhase.HOLDS_SLOT)
        over = LaneEnd(visited=visited, answered=visited)
        self.state = after_lane(self.state, begun, lane, over, SETTINGS)
        self.now_s += INTERVAL_S
        has_turn = self.everyone[PATIENT].key in keys
        self.passes_without = 0 if has_turn else self.passes_without + 1

    @invariant()
    def the_patient_one_has_its_turn(self) -> None:
        assert self.passes_without <= PASSES_MAX, "I39"

    @invariant()
    def what_is_remembered_is_bounded(self) -> None:
        assert len(self.state.next_check_s) <= (MARKED_PASSES + 1) * SETTINGS.page, "I38"
        assert set(self.state.after) | set(self.state.reads) <= {"daytona"}, "I38"


STEPS = settings(
    max_examples=25,
    stateful_step_count=2 * PASSES_MAX,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.slow
def test_whoever_stays_stale_has_its_turn_in_any_crowd() -> None:
    """Within a bounded number of passes, as long as the provider answers anything (I39)."""
    run_state_machine_as_test(Crowd, settings=STEPS)


COUNTS = st.builds(ReadCounts, in_flight=st.integers(0, 3), abandoned=st.integers(0, 6))


@given(own=COUNTS, others=COUNTS, silent=st.integers(0, 5))
def test_a_provider_takes_no_slot_of_another(
    own: ReadCounts, others: ReadCounts, silent: int
) -> None:
    """However many reads of the other hang, this one's lane is planned the same (I34, L09)."""
    mine = [runner(f"mine-{number}") for number in range(silent)]
    theirs = [runner(f"theirs-{number}", provider="modal") for number in range(silent)]
    alone = SweepState(reads={"daytona": own})
    beside = attrs.evolve(alone, reads={"daytona": own, "modal": others})

    assert plan_lane(beside, "daytona", [*theirs, *mine], SETTINGS) == plan_lane(
        alone, "daytona", mine, SETTINGS
    )


@given(
    waiting=st.integers(1, 20),
    turns=st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
def test_every_recorded_terminal_has_its_turn(waiting: int, turns: list[int]) -> None:
    """Those that cannot be settled stay, and keep nobody behind them waiting (I39, L02)."""
    everyone = [recorded(f"run-{number:02}") for number in range(waiting)]
    state, seen = SweepState(), set[str]()

    for number in range(waiting + 1):
        state, begun = begin_pass(state, number * INTERVAL_S, SETTINGS)
        after = state.after_recorded
        page: list[RecordedTerminal] = [
            one for one in everyone if after is None or one.ref.run_id > after
        ][: SETTINGS.page]
        visited = min(turns[number % len(turns)], len(page))
        seen |= {one.ref.run_id for one in page[:visited]}
        state = after_recorded(state, begun, page, visited, SETTINGS)

    assert seen == {one.ref.run_id for one in everyone}
