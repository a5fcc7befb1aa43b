"""Leases and hints of the engine in memory (ENGINE 2, L12)."""

from collections.abc import Sequence
from datetime import timedelta

from deepline.adapters.memory.fair_admission import could_admit
from deepline.adapters.memory.world import Port
from deepline.core.model.claim import Claim
from deepline.core.model.identity import Lane
from deepline.ports.engine import Wakeups
from deepline.ports.errors import Unavailable, UnavailableKind

NOTHING = timedelta(0)


class MemoryEngine(Port):
    """What concerns the engine alone."""

    async def extend(self, claims: Sequence[Claim], lease: timedelta) -> Sequence[Claim]:
        """Extend all claims in one step; returns those which are lost."""

        def effect() -> Sequence[Claim]:
            lost: list[Claim] = []
            for claim in claims:
                run = self.world.queue.held_by(claim)
                if run is None:
                    lost.append(claim)
                else:
                    self.world.queue.extend(run, lease, self.world.now())
            return lost

        return await self._step("engine.extend", effect)

    async def next_due(self, lane: Lane) -> timedelta | None:
        """How long until the lane next has something due."""

        def effect() -> timedelta | None:
            if lane not in self.world.lanes:
                return None
            if could_admit(self.world, lane, self.world.lanes[lane].org_limit):
                return NOTHING
            at = self.world.queue.next_event(lane)
            return None if at is None else max(NOTHING, at - self.world.now())

        return await self._step("engine.next_due", effect)

    async def fail(self, claim: Claim, reason: str) -> bool:
        """Spend this engine attempt; the engine retries with backoff."""

        def effect() -> bool:
            run = self.world.queue.held_by(claim)
            if run is None:
                return False
            self.world.queue.fail(run, reason, self.world.now())
            self.world.hint("lane_woken", claim.lane)
            return True

        return await self._step("engine.fail", effect)

    async def complete(self, claim: Claim) -> bool:
        """Complete the engine task of a run with nothing (more) to do."""

        def effect() -> bool:
            run = self.world.queue.held_by(claim)
            if run is None:
                return False
            self.world.queue.complete(run)
            return True

        return await self._step("engine.complete", effect)

    async def listen(self, wakeups: Wakeups) -> None:
        """Deliver hints until cancelled."""
        await self.faults.before("engine.listen")
        listener = self.world.listen(wakeups, self.faults)
        try:
            await listener.lost.wait()
        finally:
            self.world.forget(listener)
        raise Unavailable("the line of hints is lost", UnavailableKind.CONNECTION)
