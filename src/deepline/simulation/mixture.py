"""What one seed switches on: each world has a mixture of faults of its own (swarm testing).

A world in which everything goes wrong all the time reaches little: what needs calm never happens.
So each kind of fault is off in many worlds, rare in some and frequent in a few, and many worlds
strike at a few named calls only.
"""

import enum

import attrs

from deepline.core.lane_adoption import AdoptionPolicy
from deepline.core.sweep import SweepMode
from deepline.simulation.dice import UNIT, Dice
from deepline.simulation.scheduling import Strategy

BEFORE = ("lost", "refused", "unanswered", "denied", "slow", "stuck", "crash")
"""What may happen to a call on its way: it never arrives (four answers), late, or its maker dies.

`denied` befalls requests for tokens alone. `stuck` arrives late though its maker has given up on it
meanwhile.
"""
AFTER = ("reply_lost", "reply_slow", "crash_after")
"""What may happen to an answer."""

HOT_CALLS = (
    "attempts.bind_sandbox",
    "attempts.claim",
    "attempts.park",
    "attempts.resume",
    "attempts.retire",
    "capacity.reserve",
    "cleanup.finish",
    "engine.extend",
    "ledger.deliver",
    "liveness_work.record_verdict",
    "local.create",
    "local.delete",
    "local.start",
    "outbox.delivered",
    "terminals.commit",
    "terminals.offer",
)

"""Calls of which some worlds strike one again and again, in one way."""
HOT_KINDS = ("stuck", "stuck", "slow", "unanswered", "reply_lost", "crash", "crash_after")
HOT_SHARE = 0.4
CEILINGS_S = (15.0, 30.0, 60.0)
ADOPTIONS = (AdoptionPolicy.OFF, *(AdoptionPolicy.BEGUN,) * 2, *(AdoptionPolicy.ALL,) * 1)

SWEEPS = (SweepMode.OFF, SweepMode.OBSERVE, *(SweepMode.ENFORCE,) * 4)

_RATES = (0.0, 0.0, 0.0, 0.003, 0.015, 0.06)
_FOCUSES = (1.0, 1.0, 0.3, 0.1)
_LATENCIES_S = (0.0, 0.0, 0.002, 0.03, 0.3)


class Leaving(enum.StrEnum):
    """How the last worker of a release leaves its lane."""

    STOPS = "stops"
    """It is asked to stop, and stops in order."""
    DIES = "dies"
    """It dies without a word."""
    DRAINED = "drained"
    """An operator drains the lane, and it leaves by itself."""
    WINDS_DOWN = "winds down"
    """It is started again as one that leaves once its lane holds nothing for it."""
    HANDED_OVER = "handed over"
    """It dies, and an operator gives its lane to others."""


@attrs.frozen(kw_only=True)
class Mixture:
    """The rates of one world; rates of calls are shares of `UNIT`."""

    strategy: Strategy
    before: tuple[tuple[str, int], ...]
    """Kinds with the running sum of their rates, so that one number picks at most one."""
    after: tuple[tuple[str, int], ...]
    focus: float
    """The share of operations at which calls are struck at all."""
    hot_call: str
    hot_kind: str
    """One call, and what befalls it time and again; both empty in most worlds."""
    hot_answer: str
    """What befalls as many answers of the hot call, beside what befalls the call itself."""
    hot_share: float
    """The share of the hot call that is struck."""
    troubled_s: float
    """How long things go wrong."""
    long_waits: bool
    """Are waits of any length as likely as others? Else most of them are short."""
    lives: tuple[str, ...]
    """Ways in which half of the runners live, where a world is made for some."""
    latency_s: float
    hints_lost: float
    skew_s: float
    store_drift: float
    """How many seconds the store's clock gains in each second of everybody else."""
    cancels: float
    """The share of runs that somebody cancels."""
    crashes: int
    pauses: int
    stops: int
    store_outages: int
    token_outages: int
    ledger_outages: int
    provider_outages: int
    flapping_tokens: int
    """How often the token route comes and goes for a while."""
    cuts: int
    """How often what one process sends, or what it is answered, gets lost for a while."""
    retires_lane: bool
    """Does one release leave its lane, whatever is parked on it?"""
    releases: int
    absent_release: bool
    """Beside a second release, do plays ride a third whose workers are not there yet?"""
    leaving: Leaving
    """How the workers of a lane leave it."""
    returns: float
    """The share of absent workers that come in the course of a world."""
    adoption: AdoptionPolicy
    adopters_die: float
    """The share of adoptions soon after which the adopter dies."""
    controllers: int
    sweep: SweepMode
    lost_lines: int
    lies: float
    """The share of looks at a sandbox that the provider answers wrongly or not at all."""
    late_creates: float
    """The share of creates that land when their caller has long given up."""
    slow_creates: bool
    slow_looks: bool
    slow_deletes: bool
    endless_deletes: bool
    """Do some accepted deletes never come to an end?"""
    ghosts: float
    """The share of sandboxes that the provider denies for a while, though they live."""
    hung_looks: float
    """The share of the sweep's looks that hang and cannot be called off."""
    deaf_runners: float
    """The share of a runner's calls that get lost."""
    unsaid: float
    """The share of runners that do something outside and cannot say so."""
    ceilings_s: tuple[float, ...]
    """How long runners may take."""

    @property
    def strikes_calls(self) -> bool:
        """False when calls are never struck, which saves rolling for each."""
        return bool(self.before or self.after or self.hot_call)


def draw_freely(dice: Dice) -> Mixture:
    """Draw what a seed switches on, one thing apart from the other."""
    is_hot = dice.share("hot") < 0.5
    return Mixture(
        strategy=dice.pick("strategy", (Strategy.UNIFORM, Strategy.UNIFORM, Strategy.PRIORITIES)),
        before=_running_sums(dice, BEFORE),
        after=_running_sums(dice, AFTER),
        focus=dice.pick("focus", _FOCUSES),
        hot_call=dice.pick("hot call", HOT_CALLS) if is_hot else "",
        hot_kind=dice.pick("hot kind", HOT_KINDS) if is_hot else "",
        hot_answer="",
        hot_share=HOT_SHARE,
        troubled_s=dice.pick("troubled", (8.0, 15.0, 25.0, 40.0)),
        long_waits=False,
        lives=(),
        latency_s=dice.pick("latency", _LATENCIES_S),
        hints_lost=dice.pick("hints", (0.0, 0.0, 0.0, 0.3, 1.0)),
        skew_s=dice.pick("skew", (0.0, 0.0, 2.0, 900.0)),
        store_drift=dice.pick("drift", (0.0, 0.0, 0.0, 0.0004, -0.0004)),
        cancels=dice.pick("cancels", (0.0, 0.0, 0.2, 0.6)),
        crashes=dice.pick("crashes", (0, 0, 0, 1, 2, 4)),
        pauses=dice.pick("pauses", (0, 0, 1, 2)),
        stops=dice.pick("stops", (0, 0, 0, 1, 2)),
        store_outages=dice.pick("store", (0, 0, 0, 0, 1)),
        token_outages=dice.pick("tokens", (0, 0, 0, 1, 2)),
        ledger_outages=dice.pick("ledger", (0, 0, 0, 1)),
        provider_outages=dice.pick("provider", (0, 0, 0, 1)),
        flapping_tokens=dice.pick("flapping", (0, 0, 0, 0, 1)),
        cuts=dice.pick("cuts", (0, 0, 0, 1, 2)),
        retires_lane=dice.pick("retires", (False, True)),
        releases=dice.pick("releases", (1, 1, 1, 2, 1, 1, 2, 2)),
        absent_release=dice.pick("absent release", (False, True)),
        leaving=dice.pick("leaving", tuple(Leaving)),
        returns=dice.pick("returns", (0.0, 0.0, 0.5)),
        adoption=dice.pick("adoption", ADOPTIONS),
        adopters_die=dice.pick("adopters die", (0.0, 0.0, 0.7)),
        controllers=dice.pick("controllers", (1, 1, 2)),
        sweep=dice.pick("sweep", SWEEPS),
        lost_lines=dice.pick("lines", (0, 0, 0, 1, 2)),
        lies=dice.pick("lies", (0.0, 0.0, 0.2, 0.7)),
        late_creates=dice.pick("creates", (0.0, 0.0, 0.1, 0.4)),
        slow_creates=dice.pick("slow creates", (False, False, True)),
        slow_looks=dice.pick("looks", (False, False, True)),
        slow_deletes=dice.pick("deletes", (False, True)),
        endless_deletes=dice.pick("endless", (False, False, False, True)),
        ghosts=dice.pick("ghosts", (0.0, 0.0, 0.2, 0.6)),
        hung_looks=dice.pick("hung", (0.0, 0.0, 0.3, 0.8)),
        deaf_runners=dice.pick("deaf", (0.0, 0.0, 0.05, 0.4)),
        unsaid=dice.pick("unsaid", (0.0, 0.0, 0.5)),
        ceilings_s=CEILINGS_S,
    )


def calm() -> Mixture:
    """A world in which nothing goes wrong."""
    return Mixture(
        strategy=Strategy.UNIFORM,
        before=(),
        after=(),
        focus=0.0,
        hot_call="",
        hot_kind="",
        hot_answer="",
        hot_share=0.0,
        troubled_s=20.0,
        long_waits=False,
        lives=(),
        latency_s=0.0,
        hints_lost=0.0,
        skew_s=0.0,
        store_drift=0.0,
        cancels=0.0,
        crashes=0,
        pauses=0,
        stops=0,
        store_outages=0,
        token_outages=0,
        ledger_outages=0,
        provider_outages=0,
        flapping_tokens=0,
        cuts=0,
        retires_lane=False,
        releases=1,
        absent_release=False,
        leaving=Leaving.STOPS,
        returns=0.0,
        adoption=AdoptionPolicy.BEGUN,
        adopters_die=0.0,
        controllers=1,
        sweep=SweepMode.OBSERVE,
        lost_lines=0,
        lies=0.0,
        late_creates=0.0,
        slow_creates=False,
        slow_looks=False,
        slow_deletes=False,
        endless_deletes=False,
        ghosts=0.0,
        hung_looks=0.0,
        deaf_runners=0.0,
        unsaid=0.0,
        ceilings_s=CEILINGS_S,
    )


def _running_sums(dice: Dice, kinds: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    reached, sums = 0, []
    for kind in kinds:
        rate = int(dice.pick(f"rate {kind}", _RATES) * UNIT)
        if rate:
            reached += rate
            sums.append((kind, reached))
    return tuple(sums)
