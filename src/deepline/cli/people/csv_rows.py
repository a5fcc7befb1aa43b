"""A CSV file as the rows of a play's input: bounded, and refused with the place that is wrong.

Every cell is text, as it stands in the file. A row that ends early has empty cells at its end; a
row with more cells than there are columns is refused, since nobody can say what they are.
"""

import codecs
import csv
import io
from collections.abc import Iterator

import attrs

from deepline.core.model.json_value import Json

ROWS_MAX = 1_000_000
COLUMNS_MAX = 1_000
_OTHER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


class CsvRefused(Exception):
    """The file cannot be used; the message names the line and what to do."""


@attrs.frozen(kw_only=True)
class CsvTable:
    """The columns in their order, and one object a row."""

    columns: list[str]
    rows: list[dict[str, str]] = attrs.field(repr=False)

    def as_input(self) -> dict[str, Json]:
        """The input of a play: `{"columns": […], "rows": [{…}]}`."""
        return {"columns": list[Json](self.columns), "rows": list[Json](self.rows)}


def parse_csv(content: bytes, *, delimiter: str = ",") -> CsvTable:
    """Read a whole file. Raises `CsvRefused`."""
    text = _decoded(content)
    if not text.strip():
        raise CsvRefused("it is empty; its first line must name the columns")
    lines = _lines(text, delimiter)
    columns = _columns(next(lines), delimiter)
    return CsvTable(columns=columns, rows=[_row(columns, cells, at) for at, cells in lines])


def _decoded(content: bytes) -> str:
    for mark, name in _OTHER_MARKS:
        if content.startswith(mark):
            raise CsvRefused(f"it is {name}; save it as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CsvRefused(
            f"line {line} is not UTF-8 (byte 0x{content[error.start]:02x}); save the file as "
            "UTF-8, for example with `iconv -f WINDOWS-1252 -t UTF-8`"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise CsvRefused(f"line {line} holds a NUL character; it is no CSV, or not in UTF-8")
    return text


def _lines(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Every line that is not blank, with the number of the line on which it ends."""
    # A cell is bounded by the file, which is bounded already.
    csv.field_size_limit(max(len(text), 1))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    count = 0
    try:
        for cells in reader:
            if not cells:
                continue
            count += 1
            if count > ROWS_MAX + 1:
                raise CsvRefused(f"it has more than {ROWS_MAX:,} rows; split it")
            yield reader.line_num, cells
    except csv.Error as error:
        raise CsvRefused(
            f"line {max(reader.line_num, 1)} cannot be read ({error}); a cell that holds quotes, "
            'commas or line breaks stands between quotes, with quotes inside doubled ("")'
        ) from None


def _columns(first: tuple[int, list[str]], delimiter: str) -> list[str]:
    line, names = first
    if len(names) > COLUMNS_MAX:
        raise CsvRefused(f"it has {len(names):,} columns; the most is {COLUMNS_MAX:,}")
    if len(names) == 1 and delimiter == ",":
        for other, shown in ((";", "';'"), ("\t", "tab")):
            if other in names[0]:
                raise CsvRefused(
                    f"its first line has one column and a {shown} in it; give --delimiter {shown}"
                )
    columns = [name.strip() or f"column_{at}" for at, name in enumerate(names, 1)]
    twice = next((name for at, name in enumerate(columns) if name in columns[:at]), None)
    if twice is not None:
        raise CsvRefused(f"line {line} names the column {twice!r} twice; rename one")
    return columns


def _row(columns: list[str], cells: list[str], line: int) -> dict[str, str]:
    extra = cells[len(columns) :]
    if any(cell.strip() for cell in extra):
        raise CsvRefused(
            f"line {line} has {len(cells)} cells, and there are {len(columns)} columns; put cells "
            "that hold commas between quotes"
        )
    missing = [""] * (len(columns) - len(cells))
    return dict(zip(columns, [*cells[: len(columns)], *missing], strict=True))
