"""The run ledger in memory: events applied once by id, read by cursor (C26)."""

from collections.abc import Sequence
from itertools import islice

import attrs

from deepline.adapters.memory.world import Port, World
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.ledger import Fact
from deepline.ports.errors import FenceLost, Refused
from deepline.ports.run_events import LiveEvent, RunEvent


def apply_facts(world: World, facts: Sequence[Fact]) -> None:
    """Apply facts in order within the caller's step; those known already are passed over."""
    for fact in facts:
        events = world.run_events.setdefault(fact.run_id, {})
        if fact.event_id not in events:
            events[fact.event_id] = RunEvent(
                cursor=len(events) + 1,
                event_id=fact.event_id,
                kind=fact.kind,
                payload=fact.payload,
                occurred_at=fact.occurred_at,
            )


@attrs.define(eq=False)
class MemoryRunEvents(Port):
    """Events of runs; a run may have at most `quota` of them."""

    quota: int = 10_000

    async def apply(self, facts: Sequence[Fact]) -> None:
        """Apply facts of one run in order."""
        await self._step("run_events.apply", lambda: apply_facts(self.world, facts))

    async def append(self, key: AttemptKey, events: Sequence[LiveEvent]) -> int:
        """Append a live attempt's events; returns how many were new."""
        return await self._step("run_events.append", lambda: self._append(key, events))

    def _append(self, key: AttemptKey, events: Sequence[LiveEvent]) -> int:
        if self.world.live_attempt(key) is None:
            raise FenceLost(f"attempt {key.attempt} of run {key.run_id} is over")
        known = self.world.run_events.setdefault(key.run_id, {})
        fresh: dict[str, LiveEvent] = {}
        for event in events:
            if event.event_id not in known:
                fresh.setdefault(event.event_id, event)
        if len(known) + len(fresh) > self.quota:
            raise Refused("event_quota", f"a run may have {self.quota} events")
        now = self.world.now()
        for event in fresh.values():
            known[event.event_id] = RunEvent(
                cursor=len(known) + 1,
                event_id=event.event_id,
                kind=event.kind,
                payload=event.payload,
                occurred_at=now,
            )
        return len(fresh)

    async def read(self, run_id: RunId, *, after: int, limit: int) -> Sequence[RunEvent]:
        """Read events above a cursor, in order."""

        def effect() -> Sequence[RunEvent]:
            events = self.world.run_events.get(run_id, {}).values()
            return tuple(islice(events, max(0, after), max(0, after) + min(max(limit, 1), 1000)))

        return await self._step("run_events.read", effect)
