"""The sweep's rules played against random worlds: I32 to I35, I37, I38, I39."""

import random
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from deepline.core.inspection import Inspected, InspectionEvidence, InspectionFailed
from deepline.core.model.identity import AttemptKey
from deepline.core.model.sandbox import Inspection, Stage
from deepline.core.model.stale_runner import StaleRunner
from deepline.core.sweep import (
    SweepMode,
    SweepPass,
    SweepSettings,
    SweepState,
    begin_pass,
    is_active,
    marked,
)
from deepline.core.sweep_lane import Lane, LaneEnd, after_lane, plan_lane
from deepline.core.sweep_read import (
    Read,
    ReadPhase,
    WriteVerdict,
    abandon_read,
    after_read,
    before_read,
    end_read,
    take_slot,
)
from deepline.core.sweep_settlement import Project, Run, projecting, projection_turn, settling, turn
from tests.core.sweeping import key, runner

PROVIDERS = ("daytona", "modal")
SETTINGS = SweepSettings(page=4)
INTERVAL_S = SETTINGS.interval.total_seconds()
RECHECK_S = SETTINGS.recheck.total_seconds()
DEADLINE_S = SETTINGS.read_deadline.total_seconds()
EVIDENCE: tuple[InspectionEvidence, ...] = (
    InspectionFailed(),
    Inspected(Inspection(stage=Stage.COMMAND_RUNNING)),
    Inspected(Inspection(stage=Stage.SANDBOX_NOT_FOUND)),
    Inspected(Inspection(stage=Stage.SANDBOX_LOOKUP_FAILED)),
)
POOL = [
    runner(f"{provider}-{number:02}", provider=provider, readable=number % 7 != 6)
    for provider in PROVIDERS
    for number in range(12)
]


@attrs.define(eq=False)
class OpenRead:
    """A read that has not ended, of the lane that began it."""

    runner: StaleRunner
    began_s: float
    lane: "OpenLane"
    phase: ReadPhase = ReadPhase.HOLDS_SLOT


@attrs.define(eq=False)
class OpenLane:
    """A lane that a pass still works on, or whose late end is still to come."""

    sweep_pass: SweepPass
    plan: Lane
    visited: int = 0
    answered: int = 0
    waits: int = 0


def page_of(state: SweepState, provider: str, stale: Sequence[StaleRunner]) -> list[StaleRunner]:
    """What the store answers: in order of run, behind the cursor, at most one page."""
    after = state.after.get(provider)
    behind = [one for one in stale if one.provider == provider]
    behind = [one for one in behind if after is None or one.ref.run_id > after]
    return sorted(behind, key=lambda one: one.ref.run_id)[: SETTINGS.page]


class SweepMachine(RuleBasedStateMachine):
    """Passes, reads, settlements and projections that begin and end in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.state = SweepState()
        self.now_s = 1_000.0
        self.next_tick_s = self.now_s
        self.lanes: list[OpenLane] = []
        self.reads: list[OpenRead] = []
        self.read_at: dict[AttemptKey, float] = {}
        self.settlements = self.projections = 0
        self.writes = 0

    @initialize(mode=st.sampled_from([SweepMode.OBSERVE, SweepMode.ENFORCE]))
    def choose_mode(self, mode: SweepMode) -> None:
        self.mode = mode

    @precondition(lambda self: self.now_s >= self.next_tick_s)
    @rule(stale=st.sets(st.sampled_from(range(len(POOL)))))
    def tick(self, stale: set[int]) -> None:
        """A pass begins; lanes of older ones may end later than this."""
        self.state, begun = begin_pass(self.state, self.now_s, SETTINGS)
        found = [POOL[index] for index in stale]
        for provider in PROVIDERS:
            page = page_of(self.state, provider, found)
            plan = plan_lane(self.state, provider, page, SETTINGS)
            self.lanes.append(OpenLane(begun, plan))
        self.next_tick_s = self.now_s + INTERVAL_S

    @precondition(lambda self: self.lanes)
    @rule(choice=st.randoms(use_true_random=False))
    def visit(self, choice: random.Random) -> None:
        """A worker of a lane takes its next runner."""
        lane = choice.choice(self.lanes)
        if not is_active(self.state, lane.sweep_pass, self.now_s):
            return
        if lane.visited == len(lane.plan.due) or lane.waits >= lane.plan.width:
            return
        one = lane.plan.due[lane.visited]
        lane.visited += 1
        decision = before_read(self.state, one, SETTINGS)
        if isinstance(decision, Read):
            assert self.now_s - self.read_at.get(one.key, 0.0) >= RECHECK_S, "I37"
            self.read_at[one.key] = self.now_s
            self.state = take_slot(self.state, one.provider)
            self.reads.append(OpenRead(one, self.now_s, lane))
            lane.waits += 1

    @precondition(lambda self: self.reads)
    @rule(choice=st.randoms(use_true_random=False), evidence=st.sampled_from(EVIDENCE))
    def read_ends(self, choice: random.Random, evidence: InspectionEvidence) -> None:
        """A read ends, in its pass or long after it."""
        read = choice.choice(self.reads)
        self.reads.remove(read)
        self.state, read.phase = end_read(self.state, read.runner.provider, read.phase)
        assert end_read(self.state, read.runner.provider, read.phase)[0] is self.state, "I34"
        if is_active(self.state, read.lane.sweep_pass, self.now_s):
            judged = after_read(read.runner, "sb", evidence, self.mode)
            read.lane.answered += judged.answered
            self.writes += isinstance(judged.then, WriteVerdict)
            self.state = marked(self.state, read.runner.key, self.now_s, SETTINGS)
            read.lane.waits -= 1

    @rule(seconds=st.sampled_from([0.5, 3.0, 10.0, 15.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        """Waits end at the deadline of their pass, reads at their own."""
        until_s = self.now_s + seconds
        for read in self.reads:
            ends_s = read.lane.sweep_pass.deadline_s
            if self.now_s < ends_s <= until_s:
                self.state = marked(self.state, read.runner.key, ends_s, SETTINGS)
        self.now_s = until_s
        for read in self.reads:
            if self.now_s - read.began_s >= DEADLINE_S:
                self.state, read.phase, _ = abandon_read(self.state, read.runner, "sb", read.phase)

    @precondition(lambda self: self.lanes)
    @rule(choice=st.randoms(use_true_random=False))
    def lane_ends(self, choice: random.Random) -> None:
        """A lane reports, perhaps after its pass was overtaken."""
        lane = choice.choice(self.lanes)
        self.lanes.remove(lane)
        before = self.state
        end = LaneEnd(visited=lane.visited, answered=lane.answered)
        self.state = after_lane(before, lane.sweep_pass, lane.plan, end, SETTINGS)
        if lane.sweep_pass.generation != before.generation:
            assert self.state is before, "A17"

    @precondition(lambda self: self.lanes)
    @rule(choice=st.randoms(use_true_random=False))
    def settlement_begins(self, choice: random.Random) -> None:
        """A settlement's turn comes, in whichever pass it belongs to."""
        lane = choice.choice(self.lanes)
        if isinstance(turn(self.state, lane.sweep_pass, key("run"), self.now_s), Run):
            assert lane.sweep_pass.generation == self.state.generation, "I33"
            assert self.now_s < lane.sweep_pass.deadline_s, "I33"
            self.state = settling(self.state, on=True)
            self.settlements += 1

    @precondition(lambda self: self.settlements)
    @rule()
    def settlement_ends(self) -> None:
        self.state = settling(self.state, on=False)
        self.settlements -= 1

    @rule()
    def projection_begins(self) -> None:
        if isinstance(projection_turn(self.state, key("run"), can_project=True), Project):
            self.state = projecting(self.state, on=True)
            self.projections += 1

    @precondition(lambda self: self.projections)
    @rule()
    def projection_ends(self) -> None:
        self.state = projecting(self.state, on=False)
        self.projections -= 1

    @invariant()
    def one_settlement_and_one_projection(self) -> None:
        assert self.settlements <= 1, "I32"
        assert self.projections <= 1, "I32"

    @invariant()
    def reads_are_bounded(self) -> None:
        for provider in PROVIDERS:
            counts = self.state.reads_of(provider)
            open_reads = [one for one in self.reads if one.runner.provider == provider]
            holding = sum(one.phase is ReadPhase.HOLDS_SLOT for one in open_reads)
            assert counts.in_flight == holding <= SETTINGS.reads_per_provider, "I34"
            assert counts.in_flight + counts.abandoned == len(open_reads) <= 8, "I34"

    @invariant()
    def observing_writes_nothing(self) -> None:
        if getattr(self, "mode", None) is SweepMode.OBSERVE:
            assert self.writes == 0, "I35"

    @invariant()
    def marks_are_bounded(self) -> None:
        passes = RECHECK_S / INTERVAL_S + 1
        assert len(self.state.next_check_s) <= passes * SETTINGS.page * len(PROVIDERS), "I38"


STEPS = settings(
    max_examples=150,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.slow
def test_any_order_of_beginnings_and_ends_keeps_the_invariants() -> None:
    """Passes, reads, settlements and projections may begin and end as they like."""
    run_state_machine_as_test(SweepMachine, settings=STEPS)


@given(
    stale=st.integers(min_value=1, max_value=40),
    turns=st.lists(st.integers(min_value=1, max_value=6), min_size=1, max_size=6),
)
def test_every_stale_runner_has_its_turn(stale: int, turns: list[int]) -> None:
    """Whoever stays stale has its turn within a bounded number of passes (I39)."""
    everyone = [runner(f"run-{number:03}") for number in range(stale)]
    state, now_s = SweepState(), 0.0
    waiting = {one.key for one in everyone}
    passes_max = 2 * (stale + 1) + int(RECHECK_S // INTERVAL_S)

    for number in range(passes_max):
        state, begun = begin_pass(state, now_s, SETTINGS)
        page = page_of(state, "daytona", everyone)
        plan = plan_lane(state, "daytona", page, SETTINGS)
        visited = min(turns[number % len(turns)], len(plan.due))
        for one in plan.due[:visited]:
            waiting.discard(one.key)
            state = marked(state, one.key, now_s, SETTINGS)
        end = LaneEnd(visited=visited, answered=visited)
        state = after_lane(state, begun, plan, end, SETTINGS)
        now_s += INTERVAL_S
        if not waiting:
            return

    raise AssertionError(f"never visited: {sorted(one.run_id for one in waiting)}")
