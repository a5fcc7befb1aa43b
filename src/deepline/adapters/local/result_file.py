"""Reading the result that a runner left behind, which a play may have tampered with (F03, F12).

Anything but a completed or failed result, whole and storable, is no result. Nothing here raises
for what a file holds.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.json_value import Json
from deepline.core.model.result import Completed, Failed, Report, RunnerTerminal

RESULT_BYTES_MAX = 20 << 20
"""A little more than the largest result that a runner stores."""


def read_result(path: Path) -> RunnerTerminal | None:
    """The result in the file; `None` when there is none that could be settled."""
    try:
        text = _read_regular(path)
        return None if text is None else parse_result(text)
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def parse_result(text: bytes) -> RunnerTerminal:
    """Parse a completed or failed result as it is on the wire.

    Raises `ValueError`, `TypeError` or `RecursionError` for anything else.
    """
    fields = _load(text)
    if not isinstance(fields, dict):
        raise TypeError("no object")
    match fields.get("status"), fields.get("error"), fields.get("cause"):
        case "completed", _, _ if "output" in fields:
            return Completed(output=fields["output"], report=_report(fields))
        case "failed", str(error), (None | dict()) as cause:
            return Failed(error=error, cause=cause, report=_report(fields))
        case _:
            raise ValueError("neither a completed nor a failed result")


def _read_regular(path: Path) -> bytes | None:
    """The bytes of a plain file of bearable size; a link, a pipe or a device is none."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > RESULT_BYTES_MAX:
            return None
        text = file.read(RESULT_BYTES_MAX + 1)
        return text if len(text) <= RESULT_BYTES_MAX else None


def _load(text: bytes) -> Json:
    value: Json = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    for found in _texts_within(value):
        if "\x00" in found:
            raise ValueError("NUL cannot be stored")
        found.encode()  # refuses a lone surrogate
    return value


def _texts_within(value: Json) -> Iterator[str]:
    left = [value]
    while left:
        match left.pop():
            case str() as text:
                yield text
            case dict() as fields:
                yield from fields
                left += fields.values()
            case list() as items:
                left += items
            case _:
                pass


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} cannot be stored")


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise ValueError(f"{text} cannot be stored")
    return number


def _report(rest: Mapping[str, Json]) -> Report:
    logs, stats, steps = rest.get("logs", []), rest.get("stats", {}), rest.get("steps", [])
    checkpoint, namespace = rest.get("checkpoint"), rest.get("tableNamespace")
    match logs, stats, steps, namespace:
        case list(), dict(), list(), None | str():
            return Report(
                logs=_texts(logs),
                stats=stats,
                steps=tuple(steps),
                checkpoint=_checkpoint(checkpoint),
                table_namespace=namespace,
            )
        case _:
            raise ValueError("a malformed report")


def _texts(values: Sequence[Json]) -> Sequence[str]:
    texts = tuple(value for value in values if isinstance(value, str))
    if len(texts) != len(values):
        raise ValueError("a log line that is not text")
    return texts


def _checkpoint(value: Json) -> Checkpoint | None:
    """A runner hands back the play's state only; a proof of its own silence is not its to give."""
    match value:
        case None:
            return None
        case {"state": dict(state)}:
            return Checkpoint(state=state)
        case _:
            raise ValueError("a malformed checkpoint")
