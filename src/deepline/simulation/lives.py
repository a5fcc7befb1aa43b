"""What the runner of a sandbox does with its life, drawn by seed and run (C34).

Each kind is a way in which real runners behave or misbehave. The sandbox's own life, as the
provider sees it, follows from the runner's.
"""

import enum
from collections.abc import Mapping
from datetime import timedelta

import attrs

from deepline.adapters.memory import Life as SandboxLife
from deepline.core.limits import Limits
from deepline.core.model.identity import AttemptKey
from deepline.core.model.result import Completed, Failed, RunnerTerminal
from deepline.simulation.dice import Dice
from deepline.simulation.mixture import Mixture


class Kind(enum.StrEnum):
    """How a runner lives."""

    FINISHES = "finishes"
    FAILS = "fails"
    CRASHES = "crashes"
    """Its process dies and says nothing."""
    CONTAINED = "contained"
    """The play's process dies; the containment around it reports that."""
    LEAVES_RESULT = "leaves result"
    """It cannot push, but leaves its result behind in the sandbox."""
    HANGS_SILENT = "hangs in silence"
    """It neither beats nor ends until its time is up."""
    HANGS = "hangs"
    """It beats until its time is up."""
    FALLS_SILENT = "falls silent"
    """It works on without a beat, and pushes late."""
    RETURNS = "returns"
    """It is silent for so long that it is heard again just as it would be given up."""
    BEATS_LATE = "beats late"
    """Its beats come just about when they would be missed."""
    PUSHES_TWICE = "pushes twice"
    """It pushes another result after its first."""
    NEVER_BEATS = "never beats"
    """It pushes in time and never beats."""
    FIRST_BEATS_LATE = "first beats late"
    """Its first beat comes just as it would be given up."""
    PAUSES_LATE = "pauses late"
    """It is silent, and wants to sleep just as it would be given up."""
    SLEEPS = "sleeps"
    """It hands in that it wants to sleep, and goes."""
    WAITS = "waits"
    """It hands in that it waits for an event, and goes."""


_WEIGHTS: Mapping[Kind, int] = {
    Kind.FINISHES: 8,
    Kind.FAILS: 3,
    Kind.CRASHES: 3,
    Kind.CONTAINED: 1,
    Kind.LEAVES_RESULT: 2,
    Kind.HANGS: 2,
    Kind.FALLS_SILENT: 3,
    Kind.RETURNS: 3,
    Kind.BEATS_LATE: 2,
    Kind.PUSHES_TWICE: 2,
    Kind.NEVER_BEATS: 1,
    Kind.FIRST_BEATS_LATE: 1,
    Kind.PAUSES_LATE: 1,
    Kind.SLEEPS: 3,
    Kind.WAITS: 2,
}
PAUSES = frozenset({Kind.PAUSES_LATE, Kind.SLEEPS, Kind.WAITS})
UNHEARD = frozenset({Kind.NEVER_BEATS, Kind.HANGS_SILENT, Kind.PAUSES_LATE})
HANGING = frozenset({Kind.HANGS, Kind.HANGS_SILENT})
UNHEARD_SHARE = 0.3
MOST_PARTS = 3
"""After so many parts a play pauses no more."""
_ENDLESS = timedelta(days=1)

_KINDS = [kind for kind, weight in _WEIGHTS.items() for _ in range(weight)]
_RETURNS_S = (0.0, 0.0, -0.02, 0.02, 0.3, 1.0, 2.5)

CONTAINMENT = "runner exited with code 137 without pushing a terminal (crash containment epilogue)"


@attrs.frozen(kw_only=True)
class RunnerLife:
    """One runner's life: how long it works, how it ends, and what the provider sees of it."""

    kind: Kind
    works_s: float
    terminal: RunnerTerminal | None
    second: RunnerTerminal | None
    silent_s: float
    """How long one that returns is not heard."""
    rows: int
    """How many rows of a sheet it finishes on its way."""
    acts: bool
    """Does it do something outside that must be done once?"""
    boundary_id: str
    """Where it pauses, if it does."""
    pause_s: float
    """How long it sleeps, or waits for its event at most."""
    waits_for_ever: bool
    """Does its wait for the event, which is sent for sure, have no end of its own?"""
    sandbox: SandboxLife

    @property
    def beats(self) -> bool:
        """True for a runner that beats at all."""
        return self.kind not in UNHEARD

    @property
    def pushes(self) -> bool:
        """True for a runner that pushes what became of it."""
        return self.kind not in {Kind.CRASHES, Kind.LEAVES_RESULT, *HANGING, *PAUSES}


def draw_life(
    dice: Dice, key: AttemptKey, part: int, limits: Limits, mixture: Mixture
) -> RunnerLife:
    """Draw the life of the runner of one attempt; `part` counts the runners of its run from 1."""
    who = f"{key.run_id}#{key.attempt}"
    name = f"life {who}{f'.{part}' if part > 1 else ''}"
    kind = dice.pick(name, _KINDS)
    if mixture.lives and dice.share(f"{name} as others") < 0.5:
        kind = Kind(dice.pick(f"{name} as", mixture.lives))
    if kind in PAUSES and part >= MOST_PARTS:
        kind = Kind.FINISHES
    works_s = dice.between(f"{name} works", 0.0, dice.pick(f"{name} longest", (0.5, 6.0, 25.0)))
    lease_s = limits.claim_lease.total_seconds()
    silent_s = 2 * lease_s + dice.pick(f"{name} returns", _RETURNS_S)
    if kind in {Kind.RETURNS, Kind.FIRST_BEATS_LATE}:
        works_s = silent_s + dice.pick(f"{name} pushes", (0.0, 0.5, 3.0, 25.0, 25.0))
    if kind is Kind.PAUSES_LATE:
        works_s = silent_s + dice.pick(f"{name} pauses at", (0.0, 0.3, 2.0))
    if kind is Kind.FALLS_SILENT:
        works_s += dice.between(f"{name} silent", 1.0, 4.0) * lease_s
    completed = Completed(output={"by": who})
    failed = Failed(error=f"VALUE_ERROR: {who} found no rows")
    terminal: RunnerTerminal | None = completed
    if kind is Kind.FAILS:
        terminal = failed
    elif kind is Kind.CONTAINED:
        terminal = Failed(error=CONTAINMENT)
    elif kind in {Kind.CRASHES, *HANGING, *PAUSES}:
        terminal = None
    return RunnerLife(
        kind=kind,
        works_s=works_s,
        terminal=terminal,
        second=failed if kind is Kind.PUSHES_TWICE else None,
        silent_s=silent_s,
        rows=dice.pick(f"{name} rows", (0, 0, 3)),
        acts=part > 1 or dice.share(f"{name} acts") < 0.25,
        boundary_id=f"{kind.value}-{part}",
        pause_s=dice.between(f"{name} pauses", 0.0, 20.0),
        waits_for_ever=part == 1 and is_signalled(dice, key.run_id) and dice.share(name) < 0.5,
        sandbox=_sandbox_life(dice, name, kind, works_s, terminal, mixture=mixture),
    )


def is_signalled(dice: Dice, run_id: str) -> bool:
    """Does somebody send this run the event it may wait for?"""
    return dice.share(f"{run_id} unheard") >= UNHEARD_SHARE


def _sandbox_life(
    dice: Dice,
    name: str,
    kind: Kind,
    works_s: float,
    terminal: RunnerTerminal | None,
    *,
    mixture: Mixture,
) -> SandboxLife:
    hangs = kind in HANGING
    # A runner exits a moment after its work, so that what it pushed is under way by then.
    exits_s = works_s + dice.pick(f"{name} exits", (0.0, 0.5, 3.0))
    leaves = kind is Kind.LEAVES_RESULT or dice.share(f"{name} leaves") < 0.3
    deleting_s = dice.pick(f"{name} deleting", (0.0, 3.0, 20.0)) if mixture.slow_deletes else 0.0
    endless = mixture.endless_deletes and dice.share(f"{name} endless") < 0.4
    return SandboxLife(
        runs_for=None if hangs else timedelta(seconds=exits_s),
        exit_code=1 if kind is Kind.CRASHES else 0,
        result=terminal if leaves else None,
        outlives=dice.pick(f"{name} outlives", (None, timedelta(0), timedelta(seconds=5))),
        deleting_for=_ENDLESS if endless else timedelta(seconds=deleting_s),
    )
