"""Reading runs on Postgres: one, a page of them, or everything known of one (C08)."""

from collections.abc import Sequence
from typing import Any

from deepline.adapters.postgres.rows import optional, stored_terminal
from deepline.adapters.postgres.run_evidence import evidence_from_row, run_from_row
from deepline.adapters.postgres.steps import Steps
from deepline.core.model.evidence import RunEvidence
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.run import Run
from deepline.ports.runs import RunFilter, RunOutcome

PAGE_MAX = 500
EVIDENCE_MAX = 500
"""How many of the newest entries each list of the evidence holds."""

_READ = """
    select {schema}.run_json(r), r.terminal, r.log_tail from {schema}.runs r
     where r.run_id = %s and r.org_id = coalesce(%s::text, r.org_id)
"""


class PostgresRuns:
    """Implements `Runs`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def read(self, run_id: RunId, org_id: OrgId | None) -> RunOutcome | None:
        """Read one run with its result."""
        rows = await self._steps.read(_READ, run_id, org_id)
        if not rows:
            return None
        run, terminal, log_tail = rows[0]
        lines: Any = log_tail
        return RunOutcome(
            run=run_from_row(run),
            result=optional(stored_terminal, terminal),
            log_tail=tuple(lines or ()),
        )

    async def list(self, which: RunFilter) -> Sequence[Run]:
        """Read a page of runs, newest first."""
        conditions, arguments = _conditions(which)
        query = f"""
            select {{schema}}.run_json(r) from {{schema}}.runs r
             where {" and ".join(conditions)}
             order by r.created_at desc, r.run_id desc limit %s
        """  # noqa: S608 - the conditions are the fixed texts below
        limit = min(max(which.limit, 1), PAGE_MAX)
        rows = await self._steps.read(query, *arguments, limit)
        return [run_from_row(row[0]) for row in rows]

    async def evidence(self, run_id: RunId, org_id: OrgId | None) -> RunEvidence | None:
        """Read everything durable about a run, in one round trip and of one moment."""
        rows = await self._steps.read(
            "select answer from {schema}.evidence(%s, %s, %s)", run_id, org_id, EVIDENCE_MAX
        )
        return evidence_from_row(rows[0][0]) if rows else None


def _conditions(which: RunFilter) -> tuple[Sequence[str], Sequence[object]]:
    """Only what was asked for, so that each kind of list has the plan that suits it."""
    asked: dict[str, Sequence[object]] = {"true": ()}
    if which.org_id is not None:
        asked["r.org_id = %s"] = (which.org_id,)
    if which.statuses:
        asked["r.status = any (%s)"] = ([status.value for status in which.statuses],)
    if which.play_name is not None:
        asked["r.play_name = %s"] = (which.play_name,)
    if which.since is not None:
        asked["r.created_at >= %s"] = (which.since,)
    if which.before is not None:
        asked["(r.created_at, r.run_id) < (%s, %s)"] = which.before
    return tuple(asked), [argument for arguments in asked.values() for argument in arguments]
