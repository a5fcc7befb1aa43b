"""What a play is given: rows of a CSV file, a JSON document, or whatever stands at stdin."""

import sys
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

import attrs

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.csv_rows import CsvRefused, parse_csv
from deepline.core.model.json_value import Json
from deepline.ports.errors import MalformedDocument
from deepline.ports.wire import check_storable, parse_json

INPUT_BYTES_MAX = 15 << 20
"""Of the file, and of its JSON; a gateway takes a little more for a whole submit."""
STDIN = "-"
Format: TypeAlias = Literal["csv", "json"]


@attrs.frozen(kw_only=True)
class PlayInput:
    """The input as JSON; `columns` are those of a CSV file, and `rows` how many it has."""

    value: Json = attrs.field(repr=False)
    columns: tuple[str, ...] = ()
    rows: int | None = None


def read_input(
    source: str | None, *, form: Format | None = None, delimiter: str = ","
) -> PlayInput:
    """Read the input named on the command line. Raises `CommandFailed`, code USAGE.

    Without a format the file's name tells, and without one of those its first character: `{` or
    `[` begins JSON.
    """
    if source is None:
        return PlayInput(value={})
    name = "stdin" if source == STDIN else source
    content = _read(source, name)
    if (form or _format_of(source, content)) == "json":
        return _checked(_json(content, name), name)
    try:
        table = parse_csv(content, delimiter=delimiter)
    except CsvRefused as refusal:
        raise _refused(f"{name}: {refusal}") from None
    return _checked(
        PlayInput(value=table.as_input(), columns=tuple(table.columns), rows=len(table.rows)),
        name,
    )


def _read(source: str, name: str) -> bytes:
    try:
        if source == STDIN:
            content = _bounded(sys.stdin.buffer)
        else:
            with Path(source).expanduser().open("rb") as file:
                content = _bounded(file)
    except OSError as error:
        raise _refused(f"{name} cannot be read: {error.strerror}") from error
    if len(content) > INPUT_BYTES_MAX:
        raise _refused(f"{name} is larger than {INPUT_BYTES_MAX >> 20} MiB; {_SMALLER}")
    return content


_SMALLER = "split it, or let the play fetch its rows itself"


def _bounded(file: BinaryIO) -> bytes:
    return file.read(INPUT_BYTES_MAX + 1)


def _format_of(source: str, content: bytes) -> Format:
    match Path(source).suffix.lower():
        case ".json":
            return "json"
        case ".csv" | ".tsv":
            return "csv"
        case _:
            return "json" if content.lstrip()[:1] in {b"{", b"["} else "csv"


def _json(content: bytes, name: str) -> PlayInput:
    try:
        value = parse_json(content.removeprefix(b"\xef\xbb\xbf"), INPUT_BYTES_MAX)
    except MalformedDocument as error:
        raise _refused(f"{name}: {error}") from None
    rows = value.get("rows") if isinstance(value, dict) else None
    return PlayInput(value=value, rows=len(rows) if isinstance(rows, list) else None)


def _checked(found: PlayInput, name: str) -> PlayInput:
    problem = check_storable(found.value, INPUT_BYTES_MAX)
    if problem is None:
        return found
    if problem.path == "$":
        raise _refused(f"{name}: as JSON, {problem.reason}; {_SMALLER}")
    raise _refused(f"{name}: {problem.path}: {problem.reason}")


def _refused(line: str) -> CommandFailed:
    return CommandFailed(line, ExitCode.USAGE)
