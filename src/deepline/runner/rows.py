"""What became of the rows of a `ctx.map` (C23)."""

import dataclasses

from deepline.runner.bounds import ROW_BYTES_MAX, ROW_ERROR_CHARS_MAX
from deepline.runner.failures import described, shortened
from deepline.runner.storable import NotStorable, encode, storable


@dataclasses.dataclass(frozen=True)
class Row:
    """One finished row: its place, its input, and either its output or why it failed."""

    index: int
    input: object
    output: object
    error: str | None

    @property
    def ok(self) -> bool:
        """True when the function returned."""
        return self.error is None


class Rows(list[Row]):
    """All rows of a sheet in the order of their inputs."""

    @property
    def outputs(self) -> list[object]:
        """The outputs of the rows that succeeded, in order."""
        return [row.output for row in self if row.ok]

    @property
    def failures(self) -> list[Row]:
        """The rows that failed, in order."""
        return [row for row in self if not row.ok]

    def __repr__(self) -> str:
        return f"<{len(self)} rows, {len(self.failures)} failed>"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A finished row as it is stored: plain, and no longer than a row may be."""

    row: Row
    plain_input: object
    length: int

    def fields(self) -> dict[str, object]:
        """As it is on the wire."""
        return {
            "rowIndex": self.row.index,
            "inputRow": self.plain_input,
            "output": self.row.output,
            "error": self.row.error,
        }


def returned(index: int, row: object, output: object) -> Outcome:
    """The function returned; a value that cannot be stored makes the row fail."""
    try:
        plain_input, plain_output = storable(row, "row"), storable(output, "output")
    except NotStorable as failure:
        return failed(index, row, failure)
    length = len(encode(plain_input)) + len(encode(plain_output))
    if length > ROW_BYTES_MAX:
        why = f"input and output are {length} bytes together, and the most is {ROW_BYTES_MAX}"
        return failed(index, row, NotStorable(why))
    return Outcome(Row(index, row, plain_output, None), plain_input, length)


def failed(index: int, row: object, error: BaseException) -> Outcome:
    """The function raised: the row fails alone, and says type and message."""
    text = described(error).replace("\x00", "\ufffd").encode(errors="replace").decode()
    try:
        plain_input = storable(row, "row")
        length = len(encode(plain_input))
    except NotStorable:
        plain_input, length = None, 0
    if length > ROW_BYTES_MAX:
        plain_input, length = None, 0
    reason = shortened(text, ROW_ERROR_CHARS_MAX)
    return Outcome(Row(index, row, None, reason), plain_input, length)
