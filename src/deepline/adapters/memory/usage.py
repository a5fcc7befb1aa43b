"""Sandbox time in memory (C55)."""

from collections.abc import Sequence
from datetime import datetime

from deepline.adapters.memory.obligations import add_usage
from deepline.adapters.memory.rows import UsageRow
from deepline.adapters.memory.world import Port
from deepline.core.model.identity import OrgId, RunId
from deepline.ports.usage import SandboxUse


class MemoryUsage(Port):
    """Times of sandboxes, written where a sandbox is recorded and where it is proven gone."""

    async def backfill(self, run_id: RunId) -> bool:
        def effect() -> bool:
            run = self.world.runs.get(run_id)
            if run is None or not run.ended:
                return False
            rows = self.world.operations_of_run.get(run_id, ())
            return sum(add_usage(self.world, row) for row in rows) > 0

        return await self._step("usage.backfill", effect)

    async def of_run(self, run_id: RunId) -> Sequence[SandboxUse]:
        def effect() -> Sequence[SandboxUse]:
            return tuple(_use(row) for row in self.world.usage.get(run_id, ()))

        return await self._step("usage.of_run", effect)

    async def of_organisation(self, org_id: OrgId, *, since: datetime) -> float:
        def effect() -> float:
            return sum(
                (row.ended_at - row.started_at).total_seconds()
                for rows in self.world.usage.values()
                for row in rows
                if row.org_id == org_id and row.ended_at is not None and row.ended_at >= since
            )

        return await self._step("usage.of_organisation", effect)


def _use(row: UsageRow) -> SandboxUse:
    return SandboxUse(
        run_id=row.key.run_id,
        attempt=row.key.attempt,
        provider=row.provider,
        sandbox_id=row.sandbox_id,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )
