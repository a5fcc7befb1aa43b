"""Worlds that are made for one thing, since it hardly ever happens where anything may go wrong.

Each theme takes the mixture that a seed drew freely and changes what stands in its way.
"""

import attrs

from deepline.core.sweep import SweepMode
from deepline.simulation.dice import Dice
from deepline.simulation.mixture import HOT_KINDS, Mixture, draw_freely

OFFER = "terminals.offer"
COMMIT = "terminals.commit"
RECORD = "liveness_work.record_verdict"
JUDGES = (OFFER, RECORD, COMMIT)
"""Calls by which silent runners are given up."""
HEARD_AGAIN = ("returns", "first beats late", "pauses late")
SPEAKING = ("falls silent",)
"""A runner that pushes without a beat moves no heartbeat, so only its terminal tells."""
JUDGING_SHARE = 0.12
"""The share of worlds made for runners that are heard again while they are given up."""
SWEEPING_SHARE = 0.12
"""The share of worlds made for sweeps whose looks hang and whose settlements take long."""
MANY_SILENT_SHARE = 0.25
SETTLED_BY = ("launches.read", COMMIT, RECORD)
"""Calls by which a sweep settles."""

DEFERRING_SHARE = 0.08
"""The share of worlds made for claims that are given back late."""
SILENT_FOR_LONG_S = (60.0, 80.0)
GENTLE_SHARE = 0.2
ADOPTING_SHARE = 0.4
"""The share of worlds with several releases in which calls about lanes are struck."""
ADOPTED_BY = ("lanes.all", "lanes.beat", "lanes.left", "lanes.read", "attempts.claim")
"""Calls by which lanes are adopted and left."""


def draw(dice: Dice) -> Mixture:
    """Draw the mixture of a seed."""
    drawn = draw_freely(dice)
    if drawn.releases > 1 and dice.share("adopting") < ADOPTING_SHARE:
        drawn = _adopting(dice, drawn)
    theme = dice.share("theme")
    if theme < GENTLE_SHARE:
        return _without_broken_calls(drawn)
    if theme > 1 - JUDGING_SHARE:
        return _judging(dice, drawn)
    if theme > 1 - JUDGING_SHARE - SWEEPING_SHARE:
        return _sweeping(dice, drawn)
    made_for_deferrals = theme > 1 - JUDGING_SHARE - SWEEPING_SHARE - DEFERRING_SHARE
    return _deferring(dice, drawn) if made_for_deferrals else drawn


def _deferring(dice: Dice, mixture: Mixture) -> Mixture:
    """A world in which a claim is given back late: twice, or by a worker that stops."""
    calmer = attrs.evolve(
        _without_broken_calls(mixture), troubled_s=40.0, long_waits=True, hot_kind="stuck"
    )
    if dice.share("gives back twice") < 0.5:
        return attrs.evolve(
            calmer,
            hot_call="attempts.defer",
            hot_answer="reply_lost",
            hot_share=0.5,
            ledger_outages=2,
        )
    return attrs.evolve(
        calmer,
        hot_call="attempts.park",
        hot_kind="slow",
        hot_share=0.6,
        stops=4,
        lives=("returns", "hangs in silence", "falls silent"),
        lies=0.7,
        sweep=SweepMode.OFF,
    )


def _adopting(dice: Dice, mixture: Mixture) -> Mixture:
    """A world in which what workers say and read of lanes is struck again and again."""
    return attrs.evolve(
        mixture,
        hot_call=dice.pick("adopted by", ADOPTED_BY),
        hot_kind=dice.pick("adopted how", HOT_KINDS),
        retires_lane=True,
    )


def _sweeping(dice: Dice, mixture: Mixture) -> Mixture:
    """A world with many silent runners, whose sweep gets stuck now and then."""
    if dice.share("many are silent") < MANY_SILENT_SHARE:
        return _silent_for_long(mixture)
    return attrs.evolve(
        _without_broken_calls(mixture),
        token_outages=0,
        flapping_tokens=0,
        troubled_s=dice.pick("swept for", (25.0, 40.0)),
        hot_call=dice.pick("settled by", SETTLED_BY),
        hot_kind="stuck",
        hot_share=0.4,
        long_waits=True,
        lives=("falls silent", "hangs in silence", "hangs in silence", "crashes"),
        hung_looks=dice.pick("hung", (0.0, 0.4, 0.9)),
        sweep=SweepMode.ENFORCE,
    )


def _silent_for_long(mixture: Mixture) -> Mixture:
    """A world in which several runners are silent for many passes of a sweep, and live."""
    return attrs.evolve(
        _without_broken_calls(mixture),
        token_outages=0,
        flapping_tokens=0,
        cancels=0.0,
        troubled_s=40.0,
        lives=("hangs in silence",),
        ghosts=0.0,
        hung_looks=0.0,
        ceilings_s=SILENT_FOR_LONG_S,
        sweep=SweepMode.ENFORCE,
    )


def _judging(dice: Dice, mixture: Mixture) -> Mixture:
    """A world whose runners are denied while they live, and given up slowly."""
    judge = dice.pick("judge", JUDGES)
    return attrs.evolve(
        _without_broken_calls(mixture),
        token_outages=0,
        flapping_tokens=0,
        slow_creates=False,
        hot_call=judge,
        troubled_s=40.0,
        # A process that pauses while its commit is on the way loses its claim.
        pauses=6 if judge == COMMIT else 0,
        hot_kind=dice.pick("judge kind", ("stuck", "stuck", "slow")),
        hot_share=0.8,
        long_waits=True,
        lives=SPEAKING if judge == RECORD else HEARD_AGAIN,
        # Nobody settles what a runner pushed before the verdict comes.
        hints_lost=1.0 if judge == RECORD else mixture.hints_lost,
        ghosts=0.9,
        sweep=SweepMode.OFF if judge == OFFER else SweepMode.ENFORCE,
    )


def _without_broken_calls(mixture: Mixture) -> Mixture:
    """A world whose processes live and reach the store; all else may still go wrong."""
    return attrs.evolve(
        mixture,
        before=(),
        after=(),
        hot_call="",
        hot_kind="",
        crashes=0,
        adopters_die=0.0,
        pauses=0,
        stops=0,
        cuts=0,
        store_outages=0,
    )
