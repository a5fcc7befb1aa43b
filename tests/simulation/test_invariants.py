"""Each rule has a number, a sentence and a look, and finds what it is for.

That the rules find bugs in whole worlds is shown by the planted ones; here are those which no bug
of one line reaches.
"""

import random
from collections import Counter
from datetime import timedelta

import attrs
import pytest

from deepline.adapters.memory import World
from deepline.adapters.memory.rows import RunRow
from deepline.core.limits import Limits
from deepline.core.model.evidence import DecisionRecord
from deepline.core.model.identity import Lane, OrgId, RunId
from deepline.core.model.run import RunStatus
from deepline.core.model.why import Why
from deepline.simulation import INVARIANTS, Invariant
from deepline.simulation.clock import EPOCH, ProcessClock, VirtualClock
from deepline.simulation.dice import Dice
from deepline.simulation.history import Event, History
from deepline.simulation.invariants.deferrals import DEFERRALS
from deepline.simulation.invariants.ends import ENDS
from deepline.simulation.mixture import calm
from deepline.simulation.rules import Moment, Scene, Step
from deepline.simulation.sandboxes import Site
from deepline.simulation.scheduling import Strategy, make_schedule
from deepline.simulation.snapshot import BLANK, Snapshot
from deepline.simulation.stage import Stage

RUN = RunId("r1")


@pytest.fixture
def scene() -> Scene:
    """An empty world."""
    clock = VirtualClock()
    stage = Stage(
        dice=Dice(1),
        mixture=calm(),
        limits=Limits(),
        clock=clock,
        world=World(clock=ProcessClock(clock), chance=random.Random(1)),
        history=History(1),
        schedule=make_schedule(Strategy.FIFO, 1),
    )
    stage.world.runs[RUN] = RunRow(
        run_id=RUN,
        org_id=OrgId("a"),
        play_name="play",
        lane=Lane("runs"),
        release_id=None,
        placement_key="backend:local",
        created_at=EPOCH,
        task_id=None,
    )
    return Scene(stage=stage, site=Site())


def step(scene: Scene, before: Snapshot, after: Snapshot, operation: str = "any.thing") -> Step:
    """One step of the store."""
    return Step(scene, operation, "w1.1", RUN, before, after)


def look(invariants: tuple[Invariant, ...], number: str, moment: Moment, at: Step) -> list[str]:
    """What the looks of one rule say at one moment."""
    (rule,) = [one for one in invariants if one.number == number]
    told = [look(at) for when, look in rule.steps if when is moment]
    assert told
    return [problem for problem in told if problem is not None]


@pytest.mark.parametrize("rule", INVARIANTS, ids=lambda rule: rule.number)
def test_every_rule_is_looked_at(rule: Invariant) -> None:
    """A rule without a look holds nothing."""
    assert rule.steps or rule.events or rule.at_end
    assert rule.statement.endswith(".")


def test_numbers_are_given_once() -> None:
    """A number names one rule."""
    numbers = Counter(rule.number for rule in INVARIANTS)

    assert set(numbers.values()) == {1}
    assert len(numbers) >= 30


def test_a_started_run_is_not_settled_as_unstarted(scene: Scene) -> None:
    """I28: a preparation settlement of a run that has an attempt is noticed."""
    ended = BLANK._replace(status=RunStatus.CANCELLED, ended_at=EPOCH, attempt=1)
    unstarted = step(scene, BLANK, ended, "terminals.cancel_unstarted")
    started = step(scene, BLANK._replace(attempt=1), ended, "terminals.cancel_unstarted")

    assert look(ENDS, "I28", Moment.ENDED, unstarted) == []
    assert look(ENDS, "I28", Moment.ENDED, started) != []


def test_an_end_does_not_change(scene: Scene) -> None:
    """I01: whatever changes a run's end is noticed."""
    ended = BLANK._replace(status=RunStatus.CANCELLED, ended_at=EPOCH)
    later = ended._replace(ended_at=EPOCH + timedelta(seconds=1))

    assert look(ENDS, "I01", Moment.ENDED, step(scene, BLANK, ended)) == []
    assert look(ENDS, "I01", Moment.ENDED, step(scene, ended, later)) != []


def test_a_denial_is_not_waited_out(scene: Scene) -> None:
    """I19: an outage deferral after a refusal that would be repeated is noticed."""
    (minted,) = [hear for rule in DEFERRALS for kind, hear in rule.events if kind == "token"]
    event = Event(1.0, "w1.1", "", "token", RUN, 1, "denied")
    deferred = attrs.evolve(_decision(), why=attrs.evolve(_decision().why, rule="token_outage.x"))
    after = BLANK._replace(attempt=1, decision=deferred)
    at = step(scene, BLANK._replace(attempt=1), after)

    assert look(DEFERRALS, "I19", Moment.DECIDED, at) == []
    minted(event, scene)
    assert look(DEFERRALS, "I19", Moment.DECIDED, at) != []


def _decision() -> DecisionRecord:
    return DecisionRecord(at=EPOCH, attempt=1, why=Why("some.rule"))
