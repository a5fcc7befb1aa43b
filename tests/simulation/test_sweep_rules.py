"""The rules about sweeps find what they are for; see the planted bugs for whole worlds."""

import pytest

from deepline.core.limits import Limits
from deepline.core.model.identity import RunId
from deepline.core.sweep import SweepMode
from deepline.simulation import INVARIANTS
from deepline.simulation.bounds import sweep_settings
from deepline.simulation.dice import Dice
from deepline.simulation.history import Event
from deepline.simulation.mixture import calm
from deepline.simulation.rules import Scene
from deepline.simulation.sandboxes import Site
from deepline.simulation.simulate import WorldOptions, make_stage
from deepline.simulation.sweep_account import SweepAccount

SETTINGS = sweep_settings()


@pytest.fixture
def scene() -> Scene:
    """A world in which one sweep has made a pass just now."""
    stage = make_stage(WorldOptions(mixture=calm(), limits=Limits()), Dice(1))
    stage.sweeps.append(account("c1.1", number=0))
    return Scene(stage=stage, site=Site())


def account(owner: str, *, number: int) -> SweepAccount:
    """A sweep with one pass behind it."""
    return SweepAccount(
        number=number, owner=owner, mode=SweepMode.ENFORCE, settings=SETTINGS, passes=[0.0]
    )


def hear(number: str, event: Event, scene: Scene) -> list[str]:
    """What the rule of this number says of an event."""
    (rule,) = [one for one in INVARIANTS if one.number == number]
    told = [look(event, scene) for kind, look in rule.events if kind == event.kind]
    return [problem for problem in told if problem is not None]


def event(kind: str, at_s: float = 0.0, what: str = "sweep-0") -> Event:
    """Something that the first sweep did."""
    return Event(at_s, "c1.1", "", kind, RunId("r1"), 1, what)


def test_settlements_take_turns(scene: Scene) -> None:
    """I32: two at once are noticed."""
    assert hear("I32", event("settlements overlap"), scene) != []


def test_a_settlement_keeps_the_budget_of_its_pass(scene: Scene) -> None:
    """I33: one that begins after it is noticed."""
    budget_s = SETTINGS.pass_budget.total_seconds()

    assert hear("I33", event("sweep settles", budget_s), scene) == []
    assert hear("I33", event("sweep settles", budget_s + 0.1), scene) != []


@pytest.mark.parametrize(
    ("began", "problems"),
    [
        pytest.param([9.0], 0, id="one-read-with-a-slot"),
        pytest.param([9.0, 9.5], 1, id="two-reads-with-a-slot"),
        pytest.param([0.0, 9.0], 0, id="one-abandoned"),
        pytest.param([0.0, 1.0, 9.0], 1, id="one-too-many-that-never-ended"),
    ],
)
def test_reads_are_bounded(began: list[float], problems: int, scene: Scene) -> None:
    """I34: slots and reads that never ended are counted."""
    scene.stage.sweeps[0].reads = dict(enumerate(began))

    assert len(hear("I34", event("sweep read", 10.0), scene)) == problems


def test_a_sandbox_is_read_now_and_then(scene: Scene) -> None:
    """I37: a second read within the recheck period is noticed, a later one is not."""
    recheck_s = SETTINGS.recheck.total_seconds()

    assert hear("I37", event("sweep read", 0.0), scene) == []
    assert hear("I37", event("sweep read", recheck_s), scene) == []
    assert hear("I37", event("sweep read", recheck_s + 1), scene) != []


def test_one_process_sweeps(scene: Scene) -> None:
    """C43: a pass while another sweep goes on is noticed, and one after its end is not."""
    scene.stage.sweeps.append(account("c2.1", number=1))

    assert hear("C43", event("sweep pass", what="sweep-1"), scene) != []
    scene.stage.sweeps[0].over_s = 0.0
    assert hear("C43", event("sweep pass", what="sweep-1"), scene) == []


def test_a_settlement_is_left_to_end(scene: Scene) -> None:
    """C42: a write that was cut while the sweep went on is noticed at the end."""
    (rule,) = [one for one in INVARIANTS if one.number == "C42"]
    sweep = scene.stage.sweeps[0]
    sweep.cut.append(3.0)

    assert [look(scene) for look in rule.at_end] != [None]
    sweep.over_s = 3.0
    assert [look(scene) for look in rule.at_end] == [None]
