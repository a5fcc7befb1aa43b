"""Reading single fields of a JSON object: bounded, typed, with a path to what is wrong.

Every reader raises `MalformedDocument` and nothing else, whatever it is given. The codecs call
these by hand instead of through a converter: they run for each heartbeat, park and terminal, and
the explicit form is both the fastest and the one whose tolerance can be read off.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import cast

from deepline.core.instants import EPOCH, MILLISECOND
from deepline.core.model.json_value import Json, JsonObject
from deepline.ports.errors import MalformedDocument

MAX_TEXT = 1_000
"""Longest name or id that a document may carry, in characters."""
LONGEST = timedelta(days=36_525)
"""Longest length of time that is taken at its word; a hundred years."""
_LATEST_MS = 7_258_118_400_000
_LONGEST_MS = LONGEST / MILLISECOND


def join(path: str, name: str) -> str:
    """Name a field below a place."""
    return f"{path}.{name}" if path else name


def as_object(value: object, path: str) -> JsonObject:
    """Take a JSON object."""
    if isinstance(value, Mapping):
        return cast("JsonObject", value)
    raise MalformedDocument(path, "must be a JSON object")


def as_array(value: object, path: str) -> Sequence[Json]:
    """Take a JSON array."""
    if isinstance(value, list | tuple):
        return cast("Sequence[Json]", value)
    raise MalformedDocument(path, "must be a JSON array")


def text(document: JsonObject, name: str, path: str, *, longest: int = MAX_TEXT) -> str:
    """Read a text which is neither empty nor longer than `longest`."""
    value = document.get(name)
    if isinstance(value, str) and 0 < len(value) <= longest:
        return value
    raise MalformedDocument(join(path, name), f"must be a text of 1 to {longest} characters")


def optional_text(
    document: JsonObject, name: str, path: str, *, longest: int = MAX_TEXT
) -> str | None:
    """Read a text that may be absent or null."""
    if document.get(name) is None:
        return None
    return text(document, name, path, longest=longest)


def texts(document: JsonObject, name: str, path: str) -> tuple[str, ...]:
    """Read an array of texts of any length; absent and null mean empty."""
    value = document.get(name)
    if value is None:
        return ()
    place = join(path, name)
    items = as_array(value, place)
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise MalformedDocument(f"{place}[{index}]", "must be a text")
    return cast("tuple[str, ...]", tuple(items))


def optional_object(document: JsonObject, name: str, path: str) -> JsonObject | None:
    """Read an object that may be absent or null."""
    value = document.get(name)
    return None if value is None else as_object(value, join(path, name))


def count(document: JsonObject, name: str, path: str, *, least: int = 0) -> int:
    """Read a whole number from `least` to 2³¹ − 1, as the store's integers hold."""
    value = _whole(document.get(name))
    if value is not None and least <= value <= 2_147_483_647:
        return value
    raise MalformedDocument(join(path, name), f"must be a whole number of at least {least}")


def instant(document: JsonObject, name: str, path: str) -> datetime:
    """Read an instant given in milliseconds since the epoch, between 1970 and 2200."""
    value = _whole(document.get(name))
    if value is not None and 0 <= value <= _LATEST_MS:
        return EPOCH + value * MILLISECOND
    raise MalformedDocument(
        join(path, name), "must be an instant in whole milliseconds since the epoch"
    )


def optional_instant(document: JsonObject, name: str, path: str) -> datetime | None:
    """Read an instant that may be absent or null."""
    return None if document.get(name) is None else instant(document, name, path)


def length(document: JsonObject, name: str, path: str) -> timedelta:
    """Read a length of time in milliseconds; what is longer than `LONGEST` is cut to it."""
    value = tolerant_length(document.get(name))
    if value is None:
        raise MalformedDocument(join(path, name), "must be a length of 0 or more milliseconds")
    return value


def optional_length(document: JsonObject, name: str, path: str) -> timedelta | None:
    """Read a length of time that may be absent or null."""
    return None if document.get(name) is None else length(document, name, path)


def tolerant_length(value: object) -> timedelta | None:
    """Make a length of milliseconds of any finite number of at least 0; `None` of all else.

    NaN, infinities, negatives, booleans and texts are no lengths (C30: none may become a
    deadline). A number too large to count in is as good as for ever and becomes `LONGEST`.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value < float("inf"):
        return None
    if value >= _LONGEST_MS:
        return LONGEST
    return value * MILLISECOND


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None
