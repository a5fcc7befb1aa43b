"""Sheets as CSV: streamed in pages, quoted as RFC 4180 says, columns the same for every row.

Rows need not have the same keys. A first pass over the sheet collects the union of all keys in
order of first appearance, a second writes; so memory holds names and one page, whatever the
size. Keys beyond `MOST_COLUMNS`, and keys of rows that finish between the passes, go into a last
column `_more` as JSON. Input columns keep their names; an output key that is also an input key
becomes `output.KEY`. A value that is no object stands under `input` or `output`.
"""

import csv
import io
from collections.abc import Mapping, Sequence

import attrs

from deepline.core.model.json_value import Json
from deepline.ports.sheets import RowOutcome
from deepline.ports.wire import encode_json

MOST_COLUMNS = 500
MORE = "_more"
META_COLUMNS = ("_row", "_status", "_error")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class ColumnNames:
    """Collects the keys of rows, in order of first appearance, up to the bound."""

    def __init__(self) -> None:
        self._inputs: dict[str, None] = {}
        self._outputs: dict[str, None] = {}

    def see(self, row: RowOutcome) -> None:
        """Take the keys of one row."""
        for found, values in (
            (self._inputs, _cells(row.input_row, "input")),
            (self._outputs, _cells(row.output, "output")),
        ):
            for name in values:
                if len(self._inputs) + len(self._outputs) < MOST_COLUMNS:
                    found[name] = None

    def layout(self, *, escape_formulas: bool) -> "Layout":
        """The columns as they will be written."""
        return Layout(
            inputs=tuple(self._inputs),
            outputs=tuple(self._outputs),
            escape_formulas=escape_formulas,
        )


@attrs.frozen(kw_only=True)
class Layout:
    """The columns of one download, and how their cells are written.

    With `escape_formulas` a text cell that a spreadsheet would run as a formula gets an
    apostrophe in front; without it, cells hold exactly what the play returned.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    escape_formulas: bool

    def header(self) -> bytes:
        """The first line."""
        taken = {*self.inputs, *META_COLUMNS, MORE}
        outputs = [f"output.{name}" if name in taken else name for name in self.outputs]
        inputs = [
            f"input.{name}" if name in {*META_COLUMNS, MORE} else name for name in self.inputs
        ]
        return self._lines([[*META_COLUMNS, *inputs, *outputs, MORE]])

    def rows(self, rows: Sequence[tuple[int, RowOutcome]]) -> bytes:
        """Lines for some rows, each with its index."""
        return self._lines([self._row(index, row) for index, row in rows])

    def _row(self, index: int, row: RowOutcome) -> list[str]:
        inputs, outputs = _cells(row.input_row, "input"), _cells(row.output, "output")
        more: dict[str, Json] = {}
        cells: list[Json] = [index, "failed" if row.error is not None else "completed", row.error]
        for where, names, values in (
            ("input", self.inputs, inputs),
            ("output", self.outputs, outputs),
        ):
            cells.extend(values.get(name) for name in names)
            unseen = {name: values[name] for name in values if name not in set(names)}
            if unseen:
                more[where] = unseen
        cells.append(more or None)
        return [_text(cell) for cell in cells]

    def _lines(self, lines: Sequence[Sequence[str]]) -> bytes:
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\r\n")
        for line in lines:
            writer.writerow([self._safe(cell) for cell in line])
        return text.getvalue().encode()

    def _safe(self, cell: str) -> str:
        if self.escape_formulas and cell.startswith(_FORMULA_STARTS) and not _is_number(cell):
            return f"'{cell}"
        return cell


def _cells(value: Json, alone: str) -> Mapping[str, Json]:
    if isinstance(value, Mapping):
        return value
    return {} if value is None else {alone: value}


def _text(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else encode_json(value)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
