"""Finding what is left behind, on Postgres (C35, C37, ENGINE §4); see 0011_recovery.sql."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from deepline.adapters.postgres.rows import Document, fence_fields, instant, optional
from deepline.adapters.postgres.steps import Row, Steps
from deepline.core.instants import length_ms, to_ms
from deepline.core.model.identity import AttemptKey, AttemptRef, Lane, LeaseToken, ReleaseId, RunId
from deepline.ports.recovery import (
    OverdueAttempt,
    Place,
    StrandedPage,
    StrandedRun,
    UnsettledTerminal,
)

_UNSETTLED = "select * from {schema}.unsettled_terminals(%s, %s, %s, %s, %s)"
_OVERDUE = "select * from {schema}.overdue_attempts(%s, %s, %s, %s)"
_STRANDED = "select * from {schema}.stranded_runs(%s, %s, %s)"
_UNREADABLE = """
    select a.run_id, a.attempt from {schema}.attempts a
      join {schema}.runs r
        on r.run_id = a.run_id and r.attempt = a.attempt and r.terminal_at is null
     where a.status = 'waiting' and {schema}.ceiling_ms(a.suspension) is null
       and coalesce(a.suspension ->> 'kind', '') not in ('sleep', 'integration_event')
     order by a.run_id limit %s
"""


class PostgresRecovery:
    """Implements `Recovery`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def unsettled(
        self, *, lane: Lane | None, older_than: timedelta, after: Place | None, limit: int
    ) -> Sequence[UnsettledTerminal]:
        """Runner terminals whose run is open, oldest first."""
        at, run_id = after or (None, None)
        rows = await self._steps.read(_UNSETTLED, lane, older_than, at, run_id, limit)
        return [
            UnsettledTerminal(ref=_ref(row), lane=Lane(row["lane"]), stored_at=instant(row["at"]))
            for row in _documents(rows)
        ]

    async def overdue(
        self, *, lease: timedelta, after: Place | None, limit: int
    ) -> Sequence[OverdueAttempt]:
        """Attempts past their runner's ceiling, longest first."""
        at_ms, run_id = (None, None) if after is None else (to_ms(after[0]), after[1])
        rows = await self._steps.read(_OVERDUE, lease, at_ms, run_id, limit)
        return [
            OverdueAttempt(ref=_ref(row), lane=Lane(row["lane"]), ceiling_at=instant(row["at"]))
            for row in _documents(rows)
        ]

    async def claim_overdue(self, ref: AttemptRef, *, owner: str, lease: timedelta) -> bool:
        """Take an overdue attempt to running under its own fence."""
        request = fence_fields(ref) | {"owner": owner, "lease_ms": length_ms(lease)}
        answer = await self._steps.write("claim_overdue", request)
        assert isinstance(answer, dict)
        return bool(answer["held"])

    async def unreadable(self, *, limit: int) -> Sequence[AttemptKey]:
        """Waiting attempts of which nobody knows what they wait for."""
        rows: Sequence[tuple[Any, ...]] = await self._steps.read(_UNREADABLE, limit)
        return [AttemptKey(RunId(run_id), attempt) for run_id, attempt in rows]

    async def stranded(self, *, grace: timedelta, after: RunId | None, limit: int) -> StrandedPage:
        """Look at up to `limit` open runs for those whose task is over or gone."""
        (page,) = _documents(await self._steps.read(_STRANDED, grace, after, limit))
        return StrandedPage(
            runs=tuple(_stranded(row) for row in page["runs"]),
            after=page["after"],
            read_at=instant(page["read_at"]),
        )


def _documents(rows: Sequence[Row]) -> Sequence[Document]:
    found: Sequence[Any] = [row[0] for row in rows]
    return found


def _ref(row: Document) -> AttemptRef:
    return AttemptRef(RunId(row["run_id"]), row["attempt"], LeaseToken(row["lease_token"]))


def _stranded(row: Document) -> StrandedRun:
    return StrandedRun(
        run_id=RunId(row["run_id"]),
        lane=Lane(row["lane"]),
        release_id=optional(ReleaseId, row["release_id"]),
        attempt=row["attempt"],
        task_id=row["task_id"],
        task_state=row["task_state"],
    )
