"""Reading runs in memory, for people and operators (C08, explain)."""

from collections.abc import Sequence
from itertools import islice

from deepline.adapters.memory import evidence
from deepline.adapters.memory.rows import RunRow
from deepline.adapters.memory.world import Port, World
from deepline.core.model.evidence import RunEvidence
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.run import Run
from deepline.ports.runs import RunFilter, RunOutcome


class MemoryRuns(Port):
    """The read side of runs."""

    def _visible(self, run_id: RunId, org_id: OrgId | None) -> RunRow | None:
        row = self.world.runs.get(run_id)
        return row if row is not None and org_id in (None, row.org_id) else None

    async def read(self, run_id: RunId, org_id: OrgId | None) -> RunOutcome | None:
        """One run, unless it is another organisation's."""

        def effect() -> RunOutcome | None:
            row = self._visible(run_id, org_id)
            if row is None:
                return None
            return RunOutcome(
                run=run_value(self.world, row), result=row.terminal, log_tail=row.log_tail
            )

        return await self._step("runs.read", effect)

    async def list(self, which: RunFilter) -> Sequence[Run]:
        """The newest runs that fit the filter."""

        def effect() -> Sequence[Run]:
            limit = min(max(which.limit, 1), 500)
            found = (row for row in self.world.runs.values() if _matches(row, which))
            newest_first = sorted(found, key=lambda row: (row.created_at, row.run_id), reverse=True)
            return tuple(run_value(self.world, row) for row in islice(newest_first, limit))

        return await self._step("runs.list", effect)

    async def evidence(self, run_id: RunId, org_id: OrgId | None) -> RunEvidence | None:
        """All that is kept of one run, unless it is another organisation's."""

        def effect() -> RunEvidence | None:
            row = self._visible(run_id, org_id)
            return (
                None
                if row is None
                else evidence.of_run(self.world, row, run_value(self.world, row))
            )

        return await self._step("runs.evidence", effect)


def _matches(row: RunRow, which: RunFilter) -> bool:
    return (
        which.org_id in (None, row.org_id)
        and (not which.statuses or row.status in which.statuses)
        and which.play_name in (None, row.play_name)
        and (which.since is None or row.created_at >= which.since)
        and (which.before is None or (row.created_at, row.run_id) < which.before)
    )


def run_value(world: World, row: RunRow) -> Run:
    """The run as callers see it."""
    stored = world.launches.get(row.run_id)
    launch = None if stored is None else stored.launch
    retries = world.retries.get(row.run_id)
    return Run(
        run_id=row.run_id,
        org_id=row.org_id,
        play_name=row.play_name,
        status=row.status,
        lane=row.lane,
        release_id=row.release_id,
        task_id=row.task_id,
        attempt=row.attempt,
        created_at=row.created_at,
        created_projected_at=row.created_projected_at,
        cancel_requested_at=row.cancel_requested_at,
        terminal_at=row.terminal_at,
        why=row.why,
        retry_of=None if launch is None else launch.retry_of,
        retried_as=retries[-1] if retries else None,
        submitted_by=None if launch is None else launch.submitted_by,
    )
