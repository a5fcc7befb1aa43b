"""The liveness sweep: its settings, its state, and when a pass may still begin something (C39).

A parked runner that fell silent is read at its provider, outside the claims that rank runs by
organisation, so that a dead one ends without waiting behind its organisation's backlog (L04). The
state is of this process alone on purpose: losing it costs one read too many of each candidate.

Times here are seconds of a monotonic clock. A wall clock that jumps would end passes early or
stop the sweep for as long as it is ahead.
"""

import enum
from collections.abc import Mapping
from datetime import timedelta

import attrs

from deepline.core.model.identity import AttemptKey, RunId


class SweepMode(enum.StrEnum):
    """What the sweep may do with what it learns (Q22). `observe` writes nothing (I35)."""

    OFF = "off"
    OBSERVE = "observe"
    ENFORCE = "enforce"


@attrs.frozen(kw_only=True)
class SweepSettings:
    """The sweep's bounds and periods, named as BEHAVIOUR's constants are."""

    interval: timedelta = timedelta(seconds=15)
    """From the beginning of one pass to that of the next."""
    pass_budget: timedelta = timedelta(seconds=10)
    """How long a pass may begin work and wait for it."""
    hard_stop: timedelta = timedelta(seconds=12)
    """When the controller gives a pass up, whatever it waits for."""
    reads_per_provider: int = 3
    read_deadline: timedelta = timedelta(seconds=60)
    """When a read that still runs gives its slot back."""
    abandoned_max: int = 6
    """Reads past their deadline that still run; at so many a provider is not read any more."""
    page: int = 100
    recheck: timedelta = timedelta(seconds=60)
    """How soon after a read the same sandbox may be read again."""

    def violations(self) -> tuple[str, ...]:
        """Say, one sentence each, what about these settings cannot work; empty when they can."""
        found: list[str] = []
        if not timedelta(0) < self.pass_budget < self.interval:
            found.append("the sweep's pass budget must be shorter than its interval")
        if not self.pass_budget <= self.hard_stop < self.interval:
            found.append("the sweep's hard stop must lie between its pass budget and its interval")
        if self.read_deadline < self.pass_budget:
            found.append("the sweep's read deadline must be at least its pass budget")
        if self.reads_per_provider < 1 or self.page < 1 or self.abandoned_max < 1:
            found.append("the sweep's reads, abandoned reads and page must each be at least 1")
        if self.recheck < timedelta(0):
            found.append("the sweep's recheck must not be negative")
        return tuple(found)


@attrs.frozen(kw_only=True)
class ReadCounts:
    """A provider's reads: those that hold a slot, and those past their deadline that still run."""

    in_flight: int = 0
    abandoned: int = 0


@attrs.frozen(kw_only=True)
class SweepPass:
    """One pass: its turn, and the one deadline that both its work and its waits keep (Q45)."""

    generation: int
    deadline_s: float


@attrs.frozen(kw_only=True)
class SweepState:
    """What outlives a pass.

    `next_check_s` says when a sandbox may be read again. `after` is each provider's cursor, with
    no entry for the first page; `after_recorded` is that of recorded terminals. `settling` and
    `projecting` are set while one of each runs, in whichever pass it began.
    """

    generation: int = 0
    next_check_s: Mapping[AttemptKey, float] = attrs.field(factory=dict[AttemptKey, float])
    after: Mapping[str, RunId] = attrs.field(factory=dict[str, RunId])
    after_recorded: RunId | None = None
    reads: Mapping[str, ReadCounts] = attrs.field(factory=dict[str, ReadCounts])
    settling: bool = False
    projecting: bool = False

    def reads_of(self, provider: str) -> ReadCounts:
        """A provider's reads."""
        return self.reads.get(provider, ReadCounts())


def begin_pass(
    state: SweepState, now_s: float, settings: SweepSettings
) -> tuple[SweepState, SweepPass]:
    """Begin a pass: older ones may begin nothing more, and marks that are due are forgotten."""
    begun = SweepPass(
        generation=state.generation + 1,
        deadline_s=now_s + settings.pass_budget.total_seconds(),
    )
    kept = {key: due_s for key, due_s in state.next_check_s.items() if due_s > now_s}
    return attrs.evolve(state, generation=begun.generation, next_check_s=kept), begun


def is_active(state: SweepState, sweep_pass: SweepPass, now_s: float) -> bool:
    """May this pass still begin something? Not after its deadline, nor once a newer one began."""
    return sweep_pass.generation == state.generation and now_s < sweep_pass.deadline_s


def is_exhausted(sweep_pass: SweepPass, now_s: float) -> bool:
    """Has the pass used its budget up?"""
    return now_s >= sweep_pass.deadline_s


def marked(state: SweepState, key: AttemptKey, now_s: float, settings: SweepSettings) -> SweepState:
    """Note that a sandbox was just read, whatever came of it (A19, I37)."""
    due_s = now_s + settings.recheck.total_seconds()
    return attrs.evolve(state, next_check_s={**state.next_check_s, key: due_s})
