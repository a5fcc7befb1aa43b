"""Rows of a run's sheets in memory (C23, C28)."""

from collections.abc import Sequence

from deepline.adapters.memory.rows import SheetRowRow, SheetTable
from deepline.adapters.memory.world import Port
from deepline.core.model.identity import AttemptKey, AttemptRef, RunId
from deepline.core.model.ledger import SheetCounts
from deepline.ports.errors import FenceLost, NotFound
from deepline.ports.sheets import RowOutcome, SheetRow


class MemorySheets(Port):
    """Sheets by run and name; a row is written once."""

    async def open_sheet(
        self, key: AttemptKey, table_namespace: str, *, total: int
    ) -> Sequence[int]:
        """Declare a sheet once; answers which rows are finished already."""

        def effect() -> Sequence[int]:
            self._require_live(key)
            tables = self.world.sheets.setdefault(key.run_id, {})
            table = tables.setdefault(table_namespace, SheetTable(total=total))
            return sorted(table.rows)

        return await self._step("sheets.open_sheet", effect)

    async def finish_rows(
        self, key: AttemptKey, table_namespace: str, rows: Sequence[RowOutcome]
    ) -> int:
        """Keep the first outcome of each row while the attempt lives; answers how many were new."""

        def effect() -> int:
            self._require_live(key)
            table = self.world.sheets.get(key.run_id, {}).get(table_namespace)
            if table is None:
                raise NotFound(f"sheet {table_namespace} is not open; open it first")
            before = len(table.rows)
            for row in rows:
                table.rows.setdefault(row.row_index, _stored(row, key.attempt))
            return len(table.rows) - before

        return await self._step("sheets.finish_rows", effect)

    def _require_live(self, key: AttemptKey) -> None:
        if self.world.live_attempt(key) is None:
            raise FenceLost(f"attempt {key.attempt} of run {key.run_id} is over")

    async def read_rows(
        self, run_id: RunId, table_namespace: str, *, after: int, limit: int
    ) -> Sequence[SheetRow]:
        """Finished rows above an index, in order."""

        def effect() -> Sequence[SheetRow]:
            table = self.world.sheets.get(run_id, {}).get(table_namespace)
            if table is None:
                return ()
            indexes = sorted(index for index in table.rows if index > after)[:limit]
            return tuple(_value(table.rows[index]) for index in indexes)

        return await self._step("sheets.read_rows", effect)

    async def namespaces(self, run_id: RunId) -> Sequence[str]:
        return await self._step(
            "sheets.namespaces", lambda: sorted(self.world.sheets.get(run_id, {}))
        )

    async def settled(
        self, key: AttemptKey, table_namespaces: Sequence[str]
    ) -> Sequence[SheetCounts]:
        """The counts of each named sheet that exists."""

        def effect() -> Sequence[SheetCounts]:
            tables = self.world.sheets.get(key.run_id, {})
            return [_counts(name, tables[name]) for name in table_namespaces if name in tables]

        return await self._step("sheets.settled", effect)

    async def release(self, ref: AttemptRef) -> None:
        """Rows are written once and leased to nobody, so there is nothing to give back."""
        await self._step("sheets.release", lambda: None)


def _stored(row: RowOutcome, attempt: int) -> SheetRowRow:
    return SheetRowRow(
        row_index=row.row_index,
        attempt=attempt,
        input_row=row.input_row,
        output=row.output,
        error=row.error,
    )


def _value(row: SheetRowRow) -> SheetRow:
    outcome = RowOutcome(
        row_index=row.row_index, input_row=row.input_row, output=row.output, error=row.error
    )
    return SheetRow(row_index=row.row_index, attempt=row.attempt, outcome=outcome)


def _counts(name: str, table: SheetTable) -> SheetCounts:
    failed = sum(row.error is not None for row in table.rows.values())
    return SheetCounts(
        table_namespace=name,
        completed=len(table.rows) - failed,
        failed=failed,
        total=table.total,
    )
