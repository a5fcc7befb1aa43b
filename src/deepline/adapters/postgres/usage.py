"""Sandbox time on Postgres (C55). Its rows are written where sandboxes are bound and deleted."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from deepline.adapters.postgres.steps import Steps
from deepline.core.model.identity import OrgId, RunId
from deepline.ports.usage import OrganisationUse, RunUse, SandboxUse

_OF_RUN = """
    select u.run_id, u.attempt, u.provider, u.sandbox_id, u.started_at, u.ended_at
      from {schema}.sandbox_usage u where u.run_id = %s
     order by u.started_at, u.attempt, u.provider, u.sandbox_id
"""

_OF_ORGANISATION = """
    select coalesce(extract(epoch from sum(u.ended_at - u.started_at)), 0)::double precision
      from {schema}.sandbox_usage u where u.org_id = %s and u.ended_at >= %s
"""

_ORGANISATIONS = """
    select u.org_id,
           coalesce(extract(epoch from sum(u.ended_at - u.started_at)), 0)::double precision,
           count(*) filter (where u.ended_at is null)
      from {schema}.sandbox_usage u
     where u.org_id = coalesce(%s::text, u.org_id) and (u.ended_at >= %s or u.ended_at is null)
     group by u.org_id order by u.org_id limit %s
"""

_RUNS = """
    select u.run_id, u.org_id,
           coalesce(extract(epoch from sum(u.ended_at - u.started_at)), 0)::double precision
               as seconds,
           count(*) filter (where u.ended_at is null)
      from {schema}.sandbox_usage u
     where u.org_id = coalesce(%s::text, u.org_id) and (u.ended_at >= %s or u.ended_at is null)
     group by u.run_id, u.org_id order by seconds desc, u.run_id limit %s
"""


class PostgresUsage:
    """Implements `Usage`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def backfill(self, run_id: RunId) -> bool:
        """Add the times that an ended run lacks; repeating it is harmless."""
        answer = await self._steps.write("backfill_usage", {"run_id": run_id})
        assert isinstance(answer, dict)
        return bool(answer["added"])

    async def of_run(self, run_id: RunId) -> Sequence[SandboxUse]:
        """Read the sandbox times of one run, in the order they began."""
        return [_use(row) for row in await self._steps.read(_OF_RUN, run_id)]

    async def of_organisation(self, org_id: OrgId, *, since: datetime) -> float:
        """Sum up the seconds of sandboxes that ended at `since` or later."""
        [row] = await self._steps.read(_OF_ORGANISATION, org_id, since)
        seconds: Any = row[0]
        return float(seconds)

    async def organisations(
        self, org_id: OrgId | None, *, since: datetime, limit: int
    ) -> Sequence[OrganisationUse]:
        """Sum up by organisation."""
        rows: Sequence[tuple[Any, ...]] = await self._steps.read(
            _ORGANISATIONS, org_id, since, limit
        )
        return [
            OrganisationUse(org_id=OrgId(row[0]), seconds=row[1], running=row[2]) for row in rows
        ]

    async def runs(self, org_id: OrgId | None, *, since: datetime, limit: int) -> Sequence[RunUse]:
        """Sum up by run."""
        rows: Sequence[tuple[Any, ...]] = await self._steps.read(_RUNS, org_id, since, limit)
        return [
            RunUse(run_id=RunId(row[0]), org_id=OrgId(row[1]), seconds=row[2], running=row[3])
            for row in rows
        ]


def _use(row: tuple[Any, ...]) -> SandboxUse:
    run_id, attempt, provider, sandbox_id, started_at, ended_at = row
    return SandboxUse(
        run_id=RunId(run_id),
        attempt=attempt,
        provider=provider,
        sandbox_id=sandbox_id,
        started_at=started_at.astimezone(UTC),
        ended_at=None if ended_at is None else ended_at.astimezone(UTC),
    )
