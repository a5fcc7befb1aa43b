"""What a crash, a pause and a lost call mean to a process and to the world."""

import random
from datetime import timedelta

import attrs
import pytest
import trio

from deepline.adapters.memory import World
from deepline.adapters.memory.liveness import MemoryLiveness
from deepline.core.limits import Limits
from deepline.core.model.identity import AttemptKey, RunId
from deepline.ports.errors import (
    CapacityExceeded,
    ExecutorTokenUnavailable,
    OutcomeUnknown,
    PortError,
    Refused,
    Unavailable,
)
from deepline.simulation.clock import ProcessClock, VirtualClock
from deepline.simulation.dice import UNIT, Dice
from deepline.simulation.history import History
from deepline.simulation.life import Life
from deepline.simulation.link import Crashed, Link, outside_of
from deepline.simulation.mixture import Mixture, calm
from deepline.simulation.scheduling import Strategy, make_schedule
from deepline.simulation.stage import Stage
from deepline.simulation.trouble import LEDGER, PROVIDER, STORE, TOKENS, Cut

KEY = AttemptKey(RunId("r1"), 1)


def stage_of(mixture: Mixture) -> Stage:
    """A stage with nobody on it."""
    clock = VirtualClock()
    return Stage(
        dice=Dice(1),
        mixture=mixture,
        limits=Limits(),
        clock=clock,
        world=World(clock=ProcessClock(clock)),
        history=History(1),
        schedule=make_schedule(Strategy.FIFO, 1),
    )


def life_on(stage: Stage) -> Life:
    """One life of a process."""
    return Life(name="w1.1", clock=ProcessClock(stage.clock), chance=random.Random(1))


def always(kind: str, *, after: bool = False) -> Mixture:
    """A world in which every call suffers the same."""
    strike = ((kind, UNIT),)
    return attrs.evolve(
        calm(), focus=1.0, before=() if after else strike, after=strike if after else ()
    )


def beat_on(stage: Stage, life: Life) -> list[str]:
    """Call the store once; answers what it saw of the call."""
    seen: list[str] = []
    stage.world.watch = seen.append

    async def call() -> None:
        await MemoryLiveness(stage.world, Link(stage, life)).beat(KEY)

    trio.run(call, clock=stage.clock)
    return seen


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        pytest.param("lost", Unavailable, id="lost"),
        pytest.param("refused", CapacityExceeded, id="no-room"),
        pytest.param("unanswered", OutcomeUnknown, id="unanswered"),
    ],
)
def test_a_call_that_never_arrives(kind: str, error: type[PortError]) -> None:
    """The caller is told, the store never hears of it, and the fault is named."""
    stage = stage_of(always(kind))
    seen: list[str] = []
    stage.world.watch = seen.append

    async def call() -> None:
        with pytest.raises(error):
            await MemoryLiveness(stage.world, Link(stage, life_on(stage))).beat(KEY)

    trio.run(call, clock=stage.clock)

    assert seen == []
    assert stage.history.struck == [f"w1.1:liveness.beat#1 {kind}"]


def test_an_answer_that_is_lost() -> None:
    """The store has done it, and the caller cannot know."""
    stage = stage_of(always("reply_lost", after=True))
    seen: list[str] = []
    stage.world.watch = seen.append

    async def call() -> None:
        with pytest.raises(OutcomeUnknown):
            await MemoryLiveness(stage.world, Link(stage, life_on(stage))).beat(KEY)

    trio.run(call, clock=stage.clock)

    assert seen == ["liveness.beat"]


def test_a_call_that_arrives_after_its_caller_gave_up() -> None:
    """A cancelled caller does not call its request back."""
    stage = stage_of(always("stuck"))
    seen: list[str] = []
    stage.world.watch = seen.append

    async def call() -> None:
        with trio.move_on_after(0.001) as scope:
            await MemoryLiveness(stage.world, Link(stage, life_on(stage))).beat(KEY)
            await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught

    trio.run(call, clock=stage.clock)

    assert seen == ["liveness.beat"]
    assert stage.now_s > 0.001


@pytest.mark.parametrize(
    ("mixture", "seen"),
    [
        pytest.param(always("crash"), [], id="before-the-effect"),
        pytest.param(always("crash_after", after=True), ["liveness.beat"], id="after-the-effect"),
    ],
)
def test_a_process_dies_around_a_call(mixture: Mixture, seen: list[str]) -> None:
    """A crash cuts the process off; what was done before it stays done."""
    stage = stage_of(mixture)
    life = life_on(stage)
    told: list[str] = []
    stage.world.watch = told.append

    async def live() -> None:
        liveness = MemoryLiveness(stage.world, Link(stage, life))
        with life.scope:
            await liveness.beat(KEY)

    with pytest.raises(Crashed):
        trio.run(live, clock=stage.clock)

    assert life.dead
    assert told == seen


def test_the_dead_have_no_effect() -> None:
    """Whatever a dead process still does, the world never hears of it."""
    stage = stage_of(calm())
    life = life_on(stage)
    life.crash()

    with pytest.raises(Crashed):
        beat_on(stage, life)


def test_a_paused_process_notices_nothing() -> None:
    """The calls of a paused process wait, even those of a scope whose time is up."""
    stage = stage_of(calm())
    life = life_on(stage)
    life.paused_until_s = 30.0

    assert beat_on(stage, life) == ["liveness.beat"]
    assert stage.now_s == 30.0


def test_a_healed_world_spares_everybody() -> None:
    """When troubles are over no call is struck and no outside is away."""
    stage = stage_of(always("lost"))
    stage.away[STORE] = 1
    stage.troubled = False

    assert beat_on(stage, life_on(stage)) == ["liveness.beat"]
    assert stage.history.struck == []


@pytest.mark.parametrize(
    ("cut", "error", "seen"),
    [
        pytest.param(Cut.REQUESTS, Unavailable, [], id="requests"),
        pytest.param(Cut.ANSWERS, OutcomeUnknown, ["liveness.beat"], id="answers"),
    ],
)
def test_a_link_is_cut_one_way(cut: Cut, error: type[PortError], seen: list[str]) -> None:
    """Nothing arrives, or everything arrives and nobody hears of it; others are not concerned."""
    stage = stage_of(calm())
    stage.cut["w1", STORE] = cut
    told: list[str] = []
    stage.world.watch = told.append

    async def call() -> None:
        with pytest.raises(error):
            await MemoryLiveness(stage.world, Link(stage, life_on(stage))).beat(KEY)

    trio.run(call, clock=stage.clock)

    assert told == seen
    stage.cut = {("w2", STORE): cut}
    assert beat_on(stage, life_on(stage)) == ["liveness.beat"]


def test_healing_ends_a_pause() -> None:
    """A paused process goes on soon after the world is healed, not when its pause would end."""
    stage = stage_of(calm())
    life = life_on(stage)
    life.paused_until_s = 1_000.0

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            beat = MemoryLiveness(stage.world, Link(stage, life)).beat
            nursery.start_soon(beat, KEY)
            await stage.clock.nap(5.0)
            life.paused_until_s = 0.0

    trio.run(main, clock=stage.clock)

    assert stage.now_s < 10.0


def test_an_outside_that_is_away_refuses() -> None:
    """A store that is away says so, and nothing is done."""
    stage = stage_of(calm())
    stage.away[STORE] = 1

    with pytest.raises(Unavailable):
        beat_on(stage, life_on(stage))


def test_only_the_allowed_faults_strike() -> None:
    """A fault that is not among those allowed does not happen, and others do."""
    stage = stage_of(always("lost"))
    stage.only = frozenset({"w1.1:liveness.beat#2 lost"})
    life = life_on(stage)

    assert beat_on(stage, life) == ["liveness.beat"]
    with pytest.raises(Unavailable):
        beat_on(stage, life)


@pytest.mark.parametrize(
    ("operation", "outside"),
    [
        ("attempts.park", STORE),
        ("executor_tokens.mint", TOKENS),
        ("ledger.deliver", LEDGER),
        ("local.create", PROVIDER),
    ],
)
def test_every_call_has_its_outside(operation: str, outside: str) -> None:
    """Outages take one outside away and leave the others."""
    assert outside_of(operation) == outside


def test_a_denied_token_is_told_from_an_outage() -> None:
    """The token route fails in ways of its own: an outage may be waited out, a denial not."""
    stage = stage_of(always("unanswered"))
    denied = stage_of(always("denied"))

    async def mint(on: Stage, error: type[PortError]) -> None:
        with pytest.raises(error):
            await Link(on, life_on(on)).before("executor_tokens.mint")

    trio.run(mint, stage, ExecutorTokenUnavailable, clock=stage.clock)
    trio.run(mint, denied, Refused, clock=denied.clock)


def test_skew_is_of_the_date_alone() -> None:
    """A process whose date is wrong measures lengths right."""
    clock = VirtualClock()

    assert ProcessClock(clock, timedelta(hours=1)).monotonic() == clock.current_time()
