"""What a run leaves, as files that appear whole or not at all (C23).

A sheet becomes CSV: the input's columns in their order, then the output's, then `_error`, which
is empty for rows that succeeded. A row that was not done is not there. A text cell that begins
with `=`, `+`, `-`, `@`, a tab or a carriage return, and is no number, gets an apostrophe in front,
so that no spreadsheet runs it; `--keep-formulas` leaves cells as they are.
"""

import csv
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import trio

from deepline.adapters.http.api_client import ApiClient
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from deepline.ports.wire import encode_json

_CELL_CHARS_MAX = 8 << 20
_INDEX, _STATUS, _ERROR, _FIRST_OTHER = range(4)
"""Where a download has its own columns; one more, `_more`, is its last."""


@attrs.frozen(kw_only=True)
class SavedSheet:
    """What was written. `indexes` are the rows' places in the sheet, each as often as it came."""

    path: Path
    rows: int
    failed: int
    indexes: Sequence[int] = attrs.field(repr=False)


def check_target(target: Path, source: str | None) -> Path:
    """Refuse, before anything runs, a file that could not be written in the end."""
    target = target.expanduser().absolute()
    directory = target.parent
    if source is not None and target.resolve() == Path(source).expanduser().resolve():
        raise CommandFailed("the output would replace the input; name another file", ExitCode.USAGE)
    if target.is_dir():
        raise CommandFailed(f"{target} is a directory; name a file", ExitCode.USAGE)
    if not directory.is_dir():
        raise CommandFailed(f"there is no directory {directory}; make it first", ExitCode.USAGE)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise CommandFailed(f"{directory} may not be written to; choose another", ExitCode.USAGE)
    return target


async def save_sheet(
    client: ApiClient,
    run_id: RunId,
    namespace: str,
    target: Path,
    *,
    columns: Sequence[str] = (),
    keep_formulas: bool = False,
) -> SavedSheet:
    """Write the finished rows of a sheet; `columns` are the input's, in their order.

    What was at `target` before stays when this raises, and nothing is left beside it.
    """
    raw = target.with_name(f".{target.name}.{secrets.token_hex(6)}.raw")
    try:
        await client.download_sheet(run_id, namespace, raw, escape_formulas=not keep_formulas)
        return await trio.to_thread.run_sync(_rewrite, raw, target, columns)
    finally:
        raw.unlink(missing_ok=True)


def save_json(value: Json, target: Path) -> None:
    """Write a play's result as JSON."""
    with _appearing(target) as beside:
        beside.write_text(f"{encode_json(value)}\n", encoding="utf-8")


def _rewrite(raw: Path, target: Path, columns: Sequence[str]) -> SavedSheet:
    """Put the columns in the order in which people read them."""
    csv.field_size_limit(_CELL_CHARS_MAX)
    with _rows_of(raw) as (header, rows):
        more = any(row[-1] for row in rows)
    places = _places(header, columns, more=more)
    indexes: list[int] = []
    failed = 0
    with (
        _appearing(target) as beside,
        _rows_of(raw) as (header, rows),
        beside.open("w", encoding="utf-8", newline="") as written,
    ):
        writer = csv.writer(written, lineterminator="\r\n")
        writer.writerow([header[place] for place in places])
        for row in rows:
            writer.writerow([row[place] for place in places])
            indexes.append(int(row[_INDEX]))
            failed += row[_STATUS] == "failed"
    return SavedSheet(path=target, rows=len(indexes), failed=failed, indexes=indexes)


@contextmanager
def _rows_of(raw: Path) -> Iterator[tuple[list[str], Iterator[list[str]]]]:
    """The header and the rows of a download, which are all as long as it."""
    with raw.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file, strict=True)
        header = next(reader)
        assert header[:_FIRST_OTHER] == ["_row", "_status", "_error"]
        assert header[-1] == "_more"
        yield header, reader


def _places(header: Sequence[str], columns: Sequence[str], *, more: bool) -> list[int]:
    """Which column of the download comes where."""
    last = len(header) - 1
    found = {header[place]: place for place in reversed(range(_FIRST_OTHER, last))}
    names = [spelled for name in columns for spelled in (name, f"'{name}", f"input.{name}")]
    first = [found[name] for name in names if name in found]
    rest = [place for place in range(_FIRST_OTHER, last) if place not in set(first)]
    return [*first, *rest, _ERROR, *([last] if more else [])]


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """A file beside `target` that takes its place when the block ends well."""
    beside = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
