"""One pass of the sweep: discovery, then a lane a provider and one for recorded terminals (C39).

Nothing here waits longer than the pass's deadline, and nothing that may not be cut short lives in
the pass's own nursery. Only what ends in time is counted.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import attrs
import trio

from deepline.core.model.stale_runner import RecordedTerminal, StaleRunner
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.sweep import SweepMode, begin_pass, is_exhausted, marked
from deepline.core.sweep_lane import LaneEnd, after_lane, after_recorded, is_blind, plan_lane
from deepline.core.sweep_outcome import Counter, SweepOutcome, Told
from deepline.core.sweep_read import (
    Read,
    SkipAbandoned,
    SkipUnreadable,
    WriteVerdict,
    after_read,
    before_read,
)
from deepline.ports.liveness_work import WorkFound, WorkQuery
from deepline.runtime.store_time import StoreTime
from deepline.runtime.sweep.reading import SandboxRead
from deepline.runtime.sweep.settlements import Settlements
from deepline.runtime.sweep.sweeping import Sweeping
from deepline.runtime.sweep.tally import Tally
from deepline.runtime.sweep.verdicts import Verdicts

Item = TypeVar("Item", StaleRunner, RecordedTerminal)


async def run_pass(sweeping: Sweeping) -> SweepOutcome:
    """Make one pass. Raises what the discovery raises; then nothing was begun.

    May be cancelled at any moment: what it began goes on without it.
    """
    sweeping.state, sweep_pass = begin_pass(sweeping.state, trio.current_time(), sweeping.settings)
    found = await sweeping.ports.work.find(_query(sweeping))
    tally = Tally(sweeping, sweep_pass)
    lanes = _Lanes(tally, found)
    tally.tell(Told(counts=(Counter.STALE,) * len(found.stale)))
    async with trio.open_nursery() as nursery:
        if sweeping.mode is SweepMode.ENFORCE:
            nursery.start_soon(lanes.settle_recorded)
        for provider in sweeping.ports.inspectors:
            nursery.start_soon(lanes.sweep_provider, provider)
    exhausted = is_exhausted(sweep_pass, trio.current_time())
    return attrs.evolve(tally.outcome, budget_exhausted=exhausted)


def _query(sweeping: Sweeping) -> WorkQuery:
    state = sweeping.state
    return WorkQuery(
        after={provider: state.after.get(provider) for provider in sweeping.ports.inspectors},
        after_terminal=state.after_recorded,
        limit=sweeping.settings.page,
        default_timeout=sweeping.limits.claim_lease,
    )


@attrs.define(eq=False)
class _Lanes:
    tally: Tally
    found: WorkFound
    _settlements: Settlements = attrs.field(init=False)
    _verdicts: Verdicts = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        clock = self.tally.sweeping.ports.clock
        store_time = StoreTime(self.found.found_at, clock.monotonic(), clock)
        self._settlements = Settlements(self.tally)
        self._verdicts = Verdicts(self.tally, self._settlements, store_time)

    async def settle_recorded(self) -> None:
        """Settle this pass's page of recorded terminals, one after the other."""
        tally, sweeping, page = self.tally, self.tally.sweeping, self.found.terminals

        async def visit(recorded: RecordedTerminal) -> None:
            tally.tell(Told(counts=(Counter.RECORDED,)))
            await self._settlements.settle(recorded, None)

        visited = await self._walk(page, 1, visit)
        sweeping.state = after_recorded(
            sweeping.state, tally.sweep_pass, page, visited, sweeping.settings
        )

    async def sweep_provider(self, provider: str) -> None:
        """Read the silent runners of one provider."""
        tally, sweeping = self.tally, self.tally.sweeping
        lane = plan_lane(sweeping.state, provider, self.found.stale, sweeping.settings)
        tally.tell(Told(counts=(Counter.NOT_DUE,) * lane.not_due))
        answered = 0

        async def visit(runner: StaleRunner) -> None:
            nonlocal answered
            answered += await self._visit(runner)

        visited = await self._walk(lane.due, lane.width, visit)
        end = LaneEnd(visited=visited, answered=answered)
        if is_blind(lane, end):
            tally.outcome = tally.outcome.blind(provider)
        sweeping.state = after_lane(sweeping.state, tally.sweep_pass, lane, end, sweeping.settings)

    async def _walk(
        self, items: Sequence[Item], width: int, visit: Callable[[Item], Awaitable[None]]
    ) -> int:
        """Visit in order, at most `width` at a time, while the pass is active.

        Answers how many had their turn.
        """
        began = 0

        async def worker() -> None:
            nonlocal began
            while began < len(items) and self.tally.is_active():
                item = items[began]
                began += 1
                await visit(item)

        async with trio.open_nursery() as workers:
            for _ in range(min(width, len(items))):
                workers.start_soon(worker)
        return began

    async def _visit(self, runner: StaleRunner) -> bool:
        """Look after one silent runner; says whether its provider answered."""
        sweeping = self.tally.sweeping
        decision = before_read(sweeping.state, runner, sweeping.settings)
        self.tally.tell(decision.told)
        match decision:
            case SkipUnreadable():
                self._mark(runner)
                return False
            case SkipAbandoned():
                return False
            case Read(suspension):
                return await self._read(runner, suspension)

    async def _read(self, runner: StaleRunner, suspension: DetachedSuspension) -> bool:
        tally, sweeping = self.tally, self.tally.sweeping
        evidence = await SandboxRead(sweeping, runner, suspension).until(tally.deadline)
        self._mark(runner)
        judged = after_read(runner, suspension.sandbox_id, evidence, sweeping.mode)
        tally.tell(judged.told)
        if isinstance(judged.then, WriteVerdict):
            await self._verdicts.record(runner, suspension, judged.then.inspection)
        return judged.answered

    def _mark(self, runner: StaleRunner) -> None:
        sweeping = self.tally.sweeping
        sweeping.state = marked(sweeping.state, runner.key, trio.current_time(), sweeping.settings)
