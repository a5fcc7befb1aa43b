"""Sheets on Postgres: rows written once, counted where they lie (C23, C28)."""

from collections.abc import Sequence
from typing import Any

from deepline.adapters.postgres.rows import key_fields
from deepline.adapters.postgres.steps import Steps
from deepline.core.model.identity import AttemptKey, AttemptRef, RunId
from deepline.core.model.ledger import SheetCounts
from deepline.ports.errors import FenceLost, NotFound
from deepline.ports.sheets import RowOutcome, SheetRow

READ_MAX = 1_000

_READ = """
    select w.row_index, w.attempt, w.input_row, w.output, w.error
      from {schema}.sheet_rows w
     where w.run_id = %s and w.table_namespace = %s and w.row_index > %s
     order by w.row_index limit %s
"""

_NAMESPACES = """
    select s.table_namespace from {schema}.sheets s where s.run_id = %s
     order by s.table_namespace
"""

_SETTLED = """
    select s.table_namespace, w.completed, w.failed, s.total
      from unnest(%s::text[]) with ordinality as asked(table_namespace, place)
      join {schema}.sheets s on s.run_id = %s and s.table_namespace = asked.table_namespace
     cross join lateral (
         select count(*) filter (where r.error is null) as completed, count(r.error) as failed
           from {schema}.sheet_rows r
          where r.run_id = s.run_id and r.table_namespace = s.table_namespace) w
     order by asked.place
"""


class PostgresSheets:
    """Implements `Sheets`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def open_sheet(
        self, key: AttemptKey, table_namespace: str, *, total: int
    ) -> Sequence[int]:
        """Declare a sheet of a live attempt. Raises `FenceLost`."""
        finished: Any = await self._steps.write(
            "open_sheets", key_fields(key) | {"table_namespace": table_namespace, "total": total}
        )
        if finished is None:
            raise _over(key)
        return tuple(finished)

    async def finish_rows(
        self, key: AttemptKey, table_namespace: str, rows: Sequence[RowOutcome]
    ) -> int:
        """Store finished rows in a transaction of their own, as there may be many.

        Raises `NotFound` for a sheet that was never opened.
        """
        request = key_fields(key) | {
            "table_namespace": table_namespace,
            "rows": [
                {
                    "row_index": row.row_index,
                    "input_row": row.input_row,
                    "output": row.output,
                    "error": row.error,
                }
                for row in rows
            ],
        }
        [answer] = await self._steps.write_together("finish_rows", [request])
        row: Any = answer
        refused = row.get("refused")
        if refused == "attempt_over":
            raise _over(key)
        if refused is not None:
            raise NotFound(f"sheet {table_namespace} is not open; open it first")
        return int(row["written"])

    async def read_rows(
        self, run_id: RunId, table_namespace: str, *, after: int, limit: int
    ) -> Sequence[SheetRow]:
        """Read a page of rows; at most 1,000."""
        bounded = min(max(limit, 1), READ_MAX)
        rows = await self._steps.read(_READ, run_id, table_namespace, after, bounded)
        return [_sheet_row(row) for row in rows]

    async def namespaces(self, run_id: RunId) -> Sequence[str]:
        """Read the names of the run's sheets, sorted."""
        return [str(row[0]) for row in await self._steps.read(_NAMESPACES, run_id)]

    async def settled(
        self, key: AttemptKey, table_namespaces: Sequence[str]
    ) -> Sequence[SheetCounts]:
        """Count the rows of the run in each sheet, whichever attempt finished them."""
        asked = list(dict.fromkeys(table_namespaces))
        rows: Sequence[tuple[Any, ...]] = await self._steps.read(_SETTLED, asked, key.run_id)
        return [
            SheetCounts(table_namespace=name, completed=completed, failed=failed, total=total)
            for name, completed, failed, total in rows
        ]

    async def release(self, ref: AttemptRef) -> None:
        """Nothing to do: a row is written once and finished, never leased to an attempt."""


def _over(key: AttemptKey) -> FenceLost:
    return FenceLost(f"attempt {key.attempt} of run {key.run_id} is over")


def _sheet_row(row: tuple[Any, ...]) -> SheetRow:
    row_index, attempt, input_row, output, error = row
    return SheetRow(
        row_index=row_index,
        attempt=attempt,
        outcome=RowOutcome(row_index=row_index, input_row=input_row, output=output, error=error),
    )
