"""The data plane: rows of a run's sheets and their settled counts (C23, C28)."""

from collections.abc import Sequence
from typing import Protocol

import attrs

from deepline.core.model.identity import AttemptKey, AttemptRef, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.ledger import SheetCounts


@attrs.frozen(kw_only=True)
class RowOutcome:
    """One finished row.

    Exactly one of `output` and `error` says how; `error` is `None` on success.
    """

    row_index: int
    input_row: Json
    output: Json
    error: str | None


@attrs.frozen(kw_only=True)
class SheetRow:
    """One row as stored, with the attempt that finished it."""

    row_index: int
    attempt: int
    outcome: RowOutcome


class Sheets(Protocol):
    """Rows are written once; a repeated write of a finished row changes nothing."""

    async def open_sheet(
        self, key: AttemptKey, table_namespace: str, *, total: int
    ) -> Sequence[int]:
        """Declare a sheet of `total` rows; returns the indexes of rows finished already."""
        ...

    async def finish_rows(
        self, key: AttemptKey, table_namespace: str, rows: Sequence[RowOutcome]
    ) -> int:
        """Store finished rows of a live attempt, first write wins; returns how many were new.

        Raises `FenceLost` when the attempt is not live.
        """
        ...

    async def read_rows(
        self, run_id: RunId, table_namespace: str, *, after: int, limit: int
    ) -> Sequence[SheetRow]:
        """Read finished rows with index above `after`, in order (`-1` starts)."""
        ...

    async def namespaces(self, run_id: RunId) -> Sequence[str]:
        """The names of the run's sheets."""
        ...

    async def settled(
        self, key: AttemptKey, table_namespaces: Sequence[str]
    ) -> Sequence[SheetCounts]:
        """The split of each sheet that exists; sheets never opened are left out (C23)."""
        ...

    async def release(self, ref: AttemptRef) -> None:
        """Release what the attempt still holds on sheets (C28). Best effort, idempotent."""
        ...
