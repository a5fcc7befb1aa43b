"""The registry of lanes in memory (C05)."""

from collections.abc import Sequence

from deepline.adapters.memory.world import Port
from deepline.ports.lanes import LaneState


class MemoryLanes(Port):
    """Every lane, in the order they were made."""

    async def all(self) -> Sequence[LaneState]:
        def effect() -> Sequence[LaneState]:
            return tuple(
                LaneState(
                    lane=row.lane,
                    release_id=row.release_id,
                    last_claim_at=row.last_claim_at,
                    open_tasks=self.world.queue.open_tasks(row.lane),
                )
                for row in self.world.lanes.values()
            )

        return await self._step("lanes.all", effect)
