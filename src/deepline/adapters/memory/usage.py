"""Sandbox time in memory (C55)."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import attrs

from deepline.adapters.memory.obligations import add_usage
from deepline.adapters.memory.rows import UsageRow
from deepline.adapters.memory.world import Port
from deepline.core.model.identity import OrgId, RunId
from deepline.ports.usage import OrganisationUse, RunUse, SandboxUse


class MemoryUsage(Port):
    """Times of sandboxes, written where a sandbox is recorded and where it is proven gone."""

    async def backfill(self, run_id: RunId) -> bool:
        """Add what an ended run lacks; True when something was added."""

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
        """Seconds of sandbox time that ended since then."""

        def effect() -> float:
            return sum(
                (row.ended_at - row.started_at).total_seconds()
                for rows in self.world.usage.values()
                for row in rows
                if row.org_id == org_id and row.ended_at is not None and row.ended_at >= since
            )

        return await self._step("usage.of_organisation", effect)

    async def organisations(
        self, org_id: OrgId | None, *, since: datetime, limit: int
    ) -> Sequence[OrganisationUse]:
        """Organisations with use since then, by name."""

        def effect() -> Sequence[OrganisationUse]:
            uses: dict[OrgId, OrganisationUse] = {}
            for row in self._within(org_id, since):
                one = uses.get(row.org_id) or OrganisationUse(
                    org_id=row.org_id, seconds=0.0, running=0
                )
                uses[row.org_id] = attrs.evolve(
                    one, seconds=one.seconds + _seconds(row), running=one.running + _running(row)
                )
            return tuple(uses[name] for name in sorted(uses)[:limit])

        return await self._step("usage.organisations", effect)

    async def runs(self, org_id: OrgId | None, *, since: datetime, limit: int) -> Sequence[RunUse]:
        """Runs with use since then, the longest first."""

        def effect() -> Sequence[RunUse]:
            uses: dict[RunId, RunUse] = {}
            for row in self._within(org_id, since):
                one = uses.get(row.key.run_id) or RunUse(
                    run_id=row.key.run_id, org_id=row.org_id, seconds=0.0, running=0
                )
                uses[one.run_id] = attrs.evolve(
                    one, seconds=one.seconds + _seconds(row), running=one.running + _running(row)
                )
            longest_first = sorted(uses.values(), key=lambda one: (-one.seconds, one.run_id))
            return tuple(longest_first[:limit])

        return await self._step("usage.runs", effect)

    def _within(self, org_id: OrgId | None, since: datetime) -> Iterator[UsageRow]:
        for rows in self.world.usage.values():
            for row in rows:
                ended_late = row.ended_at is None or row.ended_at >= since
                if org_id in (None, row.org_id) and ended_late:
                    yield row


def _seconds(row: UsageRow) -> float:
    return 0.0 if row.ended_at is None else (row.ended_at - row.started_at).total_seconds()


def _running(row: UsageRow) -> int:
    return int(row.ended_at is None)


def _use(row: UsageRow) -> SandboxUse:
    return SandboxUse(
        run_id=row.key.run_id,
        attempt=row.key.attempt,
        provider=row.provider,
        sandbox_id=row.sandbox_id,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )
