"""Lanes that their workers leave are adopted in worlds, and rules watch how."""

from datetime import timedelta

import attrs
import pytest

from deepline.adapters.memory.rows import RunRow
from deepline.core.lane_adoption import AdoptionPolicy
from deepline.core.model.identity import Lane, OrgId, RunId
from deepline.core.model.lane import LaneState, LaneWorker
from deepline.simulation import WorldOptions, calm, simulate
from deepline.simulation.clock import EPOCH
from deepline.simulation.dice import Dice
from deepline.simulation.history import Event, History
from deepline.simulation.invariants.lanes import LANES
from deepline.simulation.left_lanes import LeftLanes
from deepline.simulation.mixture import Leaving, Mixture
from deepline.simulation.rules import Scene
from deepline.simulation.sandboxes import Site
from deepline.simulation.simulate import make_stage
from deepline.simulation.sometimes import states_of

LANE = Lane("runs-v2")
LEAVES: Mixture = attrs.evolve(
    calm(), releases=2, retires_lane=True, adoption=AdoptionPolicy.ALL, troubled_s=25.0
)


def scene_of(mixture: Mixture = LEAVES) -> Scene:
    """A world with nobody in it."""
    return Scene(stage=make_stage(WorldOptions(mixture=mixture), Dice(1)), site=Site())


def event(
    kind: str, what: str, *, operation: str = "", run: str = "", actor: str = "w1.1"
) -> Event:
    """What a worker says."""
    return Event(0.0, actor, operation, kind, run, 0, what)


def told(scene: Scene, number: str, kind: str, what: str, **more: str) -> list[str]:
    """What a rule says to an event."""
    (rule,) = [one for one in LANES if one.number == number]
    looks = [look for heard, look in rule.events if heard == kind]
    assert looks
    return [
        problem for look in looks if (problem := look(event(kind, what, **more), scene)) is not None
    ]


def stored_run(task_id: str) -> RunRow:
    """A run of the lane that was let begin."""
    return RunRow(
        run_id=RunId("r1"),
        org_id=OrgId("a"),
        play_name="works",
        lane=LANE,
        release_id=None,
        placement_key="",
        created_at=EPOCH,
        task_id=task_id,
        admitted_at=EPOCH,
    )


@pytest.mark.parametrize(
    ("leaving", "state"),
    [
        (Leaving.STOPS, "adopted: lane_adoption.quiet"),
        (Leaving.DRAINED, "adopted: lane_adoption.draining"),
        (Leaving.WINDS_DOWN, "adopted: lane_adoption.workers_leaving"),
        (Leaving.HANDED_OVER, "adopted: lane_adoption.handed_over"),
    ],
)
def test_a_left_lane_is_adopted(leaving: Leaving, state: str) -> None:
    """However a worker leaves its lane, one of another release takes over and ends its runs."""
    options = WorldOptions(mixture=attrs.evolve(LEAVES, leaving=leaving))
    reached: set[str] = set()
    for seed in range(1, 9):
        history = simulate(options, seed)
        assert history.held, (seed, history.violations)
        reached |= states_of(history)
        if {state, "ended by an adopter"} <= reached:
            return
    pytest.fail(f"never reached: {state}, or no run was ended by an adopter")


def test_without_adoption_the_workers_come_back() -> None:
    """Where adoption is off, what is left waits for its own workers, and then all comes true."""
    history: History = simulate(
        WorldOptions(mixture=attrs.evolve(LEAVES, adoption=AdoptionPolicy.OFF)), 2
    )

    assert history.held, history.violations
    assert history.of("adopted") == []
    assert len(history.of("RUN ENDED")) == 5


def test_too_many_adopted_lanes_are_noticed() -> None:
    """I48: those that only drain count too, and one's own lane is never adopted."""
    scene = scene_of()
    scene.lanes["w1"] = LANE
    scene.stage.serving["w1.1"] = lambda: [Lane("a"), Lane("b"), Lane("c")]

    assert "may adopt" in told(scene, "I48", "adopted", "a rule")[0]
    assert "its own lane" in told(scene, "I48", "adopted", f"{LANE} rule")[-1]
    assert "still serves" in told(scene, "I48", "ended", "")[0]


def worker(*, seen_s: float, leaving: bool = False) -> LaneWorker:
    """A worker of the lane's own."""
    return LaneWorker(
        worker="w2.1",
        release_id=None,
        adopted=False,
        leaving=leaving,
        started_at=EPOCH,
        seen_at=EPOCH + timedelta(seconds=seen_s),
    )


STATE = LaneState(
    lane=LANE, release_id=None, read_at=EPOCH + timedelta(seconds=60), created_at=EPOCH
)


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        pytest.param(attrs.evolve(STATE, workers=[worker(seen_s=59.0)]), "serves", id="served"),
        pytest.param(
            attrs.evolve(STATE, last_claim_at=STATE.read_at), "was in use", id="claimed-lately"
        ),
        pytest.param(attrs.evolve(STATE, lane=Lane("other")), "read nothing", id="unknown"),
        pytest.param(STATE, "", id="left"),
        pytest.param(
            attrs.evolve(STATE, workers=[worker(seen_s=59.0, leaving=True)]), "", id="leaving"
        ),
        pytest.param(
            attrs.evolve(STATE, last_claim_at=STATE.read_at, handed_over=True), "", id="given"
        ),
    ],
)
def test_only_left_lanes_are_adopted(state: LaneState, problem: str) -> None:
    """C56: the oracle judges by what the worker had read of the lane."""
    scene = scene_of()
    scene.stage.lanes_read["w1.1"] = [state]

    found = told(scene, "C56", "adopted", f"{LANE} rule")

    assert [problem in one for one in found] == [True] * bool(problem)


def test_an_unheard_claim_is_in_nobodys_hand() -> None:
    """C57: a worker may leave while the store believes it has what no answer told it of."""
    scene = scene_of()
    world = scene.world
    world.queue.add_lane(LANE)
    run_id = RunId("r1")
    task = world.queue.spawn_held(LANE, run_id, engine=5, finaliser=3)
    scene.memory["claim", "w1.1"] = (world.now(), "w1.1:7")
    task.current.claimed_by = "w1.1:7"
    task.current.claim_expires_at = world.now() + timedelta(seconds=60)

    assert "in hand" in told(scene, "C57", "drained", f"{LANE} drain.adopted")[0]
    assert told(scene, "C57", "fault", "reply_slow", operation="attempts.claim") == []
    assert "in hand" in told(scene, "C57", "drained", f"{LANE} drain.adopted")[0]
    assert told(scene, "C57", "fault", "reply_lost", operation="attempts.claim") == []
    assert told(scene, "C57", "drained", f"{LANE} drain.adopted") == []


def test_a_run_that_was_cut_is_in_nobodys_hand() -> None:
    """C57: a worker counts its lease from when it asked, the store from when it answered."""
    scene = scene_of()
    world = scene.world
    world.queue.add_lane(LANE)
    task = world.queue.spawn_held(LANE, RunId("r1"), engine=5, finaliser=3)
    world.runs[RunId("r1")] = stored_run(task.task_id)
    task.current.claimed_by = "w1.1:7"
    task.current.claim_expires_at = world.now() + timedelta(seconds=60)

    def leaves() -> list[str]:
        return told(scene, "C57", "drained", f"{LANE} drain.adopted")

    assert told(scene, "C57", "warned", "claim_failed: no answer", run="r1") == []
    assert told(scene, "C57", "warned", "run_cut: lease lost") == []
    assert told(scene, "C57", "warned", "run_cut: lease lost", run="r1", actor="w2.1") == []
    assert "in hand" in leaves()[0]
    assert told(scene, "C57", "warned", "run_cut: lease lost", run="r1") == []
    assert leaves() == []


@pytest.mark.parametrize("seed", [3267, 6759, 8590, 8671, 10274, 12279, 12659])
def test_worlds_that_the_oracle_once_misjudged(seed: int) -> None:
    """C56, C57, L01: a claim is taken by others at once, never heard of, or cut before it lapses.

    A worker that is called back while it winds down comes back. An adopter may have read that a
    lane was given away before its giver has an answer.
    """
    history = simulate(WorldOptions(), seed)

    assert history.held, history.violations


def test_due_work_that_nobody_comes_to_is_noticed() -> None:
    """L11: a left lane with due work, and nobody at it, for longer than adoption may take."""
    scene = scene_of()
    stage, world = scene.stage, scene.world
    world.queue.add_lane(LANE)
    task = world.queue.spawn_held(LANE, RunId("r1"), engine=3, finaliser=2)
    world.queue.make_due(task.current, world.now())
    world.runs[RunId("r1")] = stored_run(task.task_id)
    lanes = LeftLanes(stage=stage)
    stage.retired.add(LANE)

    assert lanes.unattended() is None
    stage.clock.deadline_to_sleep_time(1_000.0)
    assert "nobody has come" in (lanes.unattended() or "")
