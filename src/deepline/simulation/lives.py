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
from deepline.core.model.result import Completed, Failed, RunnerTerminal
from deepline.simulation.dice import Dice


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
}

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
    sandbox: SandboxLife

    @property
    def beats(self) -> bool:
        """True for a runner that beats at all."""
        return self.kind is not Kind.NEVER_BEATS

    @property
    def pushes(self) -> bool:
        """True for a runner that pushes what became of it."""
        return self.kind not in {Kind.CRASHES, Kind.LEAVES_RESULT, Kind.HANGS}


def draw_life(
    dice: Dice, run_id: str, attempt: int, limits: Limits, *, slow_deletes: bool
) -> RunnerLife:
    """Draw the life of the runner of one attempt."""
    name = f"life {run_id}#{attempt}"
    kinds = [kind for kind, weight in _WEIGHTS.items() for _ in range(weight)]
    kind = dice.pick(name, kinds)
    works_s = dice.between(f"{name} works", 0.0, dice.pick(f"{name} longest", (0.5, 6.0, 25.0)))
    lease_s = limits.claim_lease.total_seconds()
    silent_s = 2 * lease_s + dice.pick(f"{name} returns", (0.0, 0.0, -0.02, 0.02, 0.3, 1.0))
    if kind is Kind.RETURNS:
        works_s = silent_s + dice.pick(f"{name} pushes", (0.0, 0.5, 3.0))
    if kind is Kind.FALLS_SILENT:
        works_s += dice.between(f"{name} silent", 1.0, 4.0) * lease_s
    completed = Completed(output={"by": f"{run_id}#{attempt}"})
    failed = Failed(error=f"VALUE_ERROR: {run_id}#{attempt} found no rows")
    terminal: RunnerTerminal | None = completed
    if kind is Kind.FAILS:
        terminal = failed
    elif kind is Kind.CONTAINED:
        terminal = Failed(error=CONTAINMENT)
    elif kind in {Kind.CRASHES, Kind.HANGS}:
        terminal = None
    return RunnerLife(
        kind=kind,
        works_s=works_s,
        terminal=terminal,
        second=failed if kind is Kind.PUSHES_TWICE else None,
        silent_s=silent_s,
        rows=dice.pick(f"{name} rows", (0, 0, 3)),
        sandbox=_sandbox_life(dice, name, kind, works_s, terminal, slow_deletes=slow_deletes),
    )


def _sandbox_life(
    dice: Dice,
    name: str,
    kind: Kind,
    works_s: float,
    terminal: RunnerTerminal | None,
    *,
    slow_deletes: bool,
) -> SandboxLife:
    hangs = kind is Kind.HANGS
    # A runner exits a moment after its work, so that what it pushed is under way by then.
    exits_s = works_s + dice.pick(f"{name} exits", (0.0, 0.5, 3.0))
    leaves = kind is Kind.LEAVES_RESULT or dice.share(f"{name} leaves") < 0.3
    deleting_s = dice.pick(f"{name} deleting", (0.0, 3.0, 20.0)) if slow_deletes else 0.0
    return SandboxLife(
        runs_for=None if hangs else timedelta(seconds=exits_s),
        exit_code=0 if terminal is not None else 1,
        result=terminal if leaves else None,
        outlives=dice.pick(f"{name} outlives", (None, timedelta(0), timedelta(seconds=5))),
        deleting_for=timedelta(seconds=deleting_s),
    )
