"""Which of a page's runners a pass reads, how many at a time, and where the next page begins (C39).

Every provider has a lane of its own, so that a slow one cannot use up what another needs. A lane
walks the stale runners of its provider in order of run, page after page and pass after pass, so
that each of them has its turn (I39).
"""

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from deepline.core.model.identity import RunId
from deepline.core.model.stale_runner import RecordedTerminal, StaleRunner
from deepline.core.sweep import SweepPass, SweepSettings, SweepState

Work: TypeAlias = StaleRunner | RecordedTerminal


@attrs.frozen(kw_only=True)
class Lane:
    """One provider's part of a pass: its page, those due in it, and how many may be read at a time.

    `width` 0 means that reads of earlier passes still hold every slot.
    """

    provider: str
    page: Sequence[StaleRunner]
    due: Sequence[StaleRunner]
    width: int

    @property
    def not_due(self) -> int:
        """How many of the page were read too short a time ago."""
        return len(self.page) - len(self.due)


@attrs.frozen(kw_only=True)
class LaneEnd:
    """What became of a lane: how many of its due runners had their turn, how many were answered."""

    visited: int
    answered: int


def plan_lane(
    state: SweepState, provider: str, stale: Sequence[StaleRunner], settings: SweepSettings
) -> Lane:
    """Plan one provider's lane at the start of a pass."""
    page = [runner for runner in stale if runner.provider == provider]
    due = [runner for runner in page if runner.key not in state.next_check_s]
    in_flight = state.reads_of(provider).in_flight
    return Lane(
        provider=provider,
        page=page,
        due=due,
        width=max(0, settings.reads_per_provider - in_flight),
    )


def is_blind(lane: Lane, end: LaneEnd) -> bool:
    """Something was due and nothing was answered: then "none is gone" says nothing (C43.3)."""
    return bool(lane.due) and end.answered == 0


def next_cursor(
    current: RunId | None,
    page: Sequence[Work],
    due: Sequence[Work],
    visited: int,
    limit: int,
) -> RunId | None:
    """Where the next page begins: behind the last that had its turn, else at the beginning."""
    if visited < len(due):
        return due[visited - 1].ref.run_id if visited else current
    return None if len(page) < limit else page[-1].ref.run_id


def after_lane(
    state: SweepState, sweep_pass: SweepPass, lane: Lane, end: LaneEnd, settings: SweepSettings
) -> SweepState:
    """Move a provider's cursor; a pass that was overtaken moves nothing (A17, Q46)."""
    if sweep_pass.generation != state.generation:
        return state
    current = state.after.get(lane.provider)
    cursor = next_cursor(current, lane.page, lane.due, end.visited, settings.page)
    after = {name: run for name, run in state.after.items() if name != lane.provider}
    if cursor is not None:
        after[lane.provider] = cursor
    return attrs.evolve(state, after=after)


def after_recorded(
    state: SweepState,
    sweep_pass: SweepPass,
    page: Sequence[RecordedTerminal],
    visited: int,
    settings: SweepSettings,
) -> SweepState:
    """Move the cursor of recorded terminals likewise, so that no bad one stops the others."""
    if sweep_pass.generation != state.generation:
        return state
    cursor = next_cursor(state.after_recorded, page, page, visited, settings.page)
    return attrs.evolve(state, after_recorded=cursor)
