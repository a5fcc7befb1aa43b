"""What the store can hold, and the two doors through which JSON text comes and goes.

The store's JSON has no NaN, no NUL in a text and no half of a surrogate pair, and its encoding
must be within a bound. A result that breaks these ends its run with a clear failure; so whoever
accepts a value asks first.
"""

import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from typing import cast

import attrs

from deepline.core.model.json_value import Json
from deepline.ports.errors import MalformedDocument

MAX_DEPTH = 200
"""How deep arrays and objects may nest."""
MAX_INTEGER_DIGITS = 4_000
_MAX_INTEGER = 10**MAX_INTEGER_DIGITS
# The encoder takes somewhat longer ones. Begun at the first digit alone, the search stays linear.
_TOO_MANY_DIGITS = re.compile(f"(?<![0-9])[0-9]{{{MAX_INTEGER_DIGITS + 1}}}")
# One for all calls: json.dumps would make one for each.
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@attrs.frozen
class Problem:
    """Why a value cannot be stored: `code` for machines, `reason` a sentence for people.

    `path` leads to the place, such as `$.rows[3].name`; it is `$` for the whole value.
    """

    code: str
    path: str
    reason: str


def check_storable(value: object, max_bytes: int) -> Problem | None:
    """Say what about `value` cannot be stored, or `None` if it can; never raises.

    `max_bytes` bounds the compact UTF-8 encoding. One pass of the C encoder decides the usual
    case; only a value that fails is walked through to find the place.
    """
    try:
        encoded = _compact(value)
        size = len(encoded.encode())
    except (ValueError, TypeError, RecursionError):
        return _find_problem(value) or Problem("not_json", "$", "the value cannot be encoded")
    if size > max_bytes:
        return _too_large(size, max_bytes)
    suspicious = "\\u0000" in encoded or encoded.count("[") + encoded.count("{") > MAX_DEPTH
    if suspicious or (size > MAX_INTEGER_DIGITS and _TOO_MANY_DIGITS.search(encoded)):
        return _find_problem(value)
    return None


def encode_json(value: Json) -> str:
    """Encode compactly; raises `MalformedDocument` for what cannot be stored."""
    try:
        encoded = _compact(value)
        encoded.encode()
    except (ValueError, TypeError, RecursionError):
        problem = _find_problem(value)
        reason = "the value cannot be encoded" if problem is None else problem.reason
        raise MalformedDocument("" if problem is None else problem.path, reason) from None
    return encoded


def parse_json(body: bytes, max_bytes: int) -> Json:
    """Parse a body from outside; raises `MalformedDocument` for whatever cannot be stored."""
    if len(body) > max_bytes:
        raise MalformedDocument("", _too_large(len(body), max_bytes).reason)
    try:
        value: Json = json.loads(body.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise MalformedDocument("", "is not JSON in UTF-8, or nests too deep") from None
    problem = check_storable(value, sys.maxsize)
    if problem is not None:
        raise MalformedDocument(problem.path, problem.reason)
    return value


def _compact(value: object) -> str:
    return _COMPACT.encode(value)


def _refuse_constant(name: str) -> Json:
    raise ValueError(name)


def _too_large(size: int, max_bytes: int) -> Problem:
    return Problem(
        "too_large", "$", f"is {size} bytes long, but at most {max_bytes} bytes can be stored"
    )


def _find_problem(value: object) -> Problem | None:
    """Walk without recursion, so that no depth can harm."""
    stack: list[tuple[object, str, int]] = [(value, "$", 0)]
    while stack:
        item, path, depth = stack.pop()
        if depth > MAX_DEPTH:
            return Problem("too_deep", "$", f"nests deeper than {MAX_DEPTH} levels")
        problem = _own_problem(item, path)
        if problem is not None:
            return problem
        stack.extend((child, place, depth + 1) for child, place in _children(item, path))
    return None


def _children(item: object, path: str) -> Iterator[tuple[object, str]]:
    if isinstance(item, dict):
        for key, child in cast("dict[str, object]", item).items():
            yield child, _below(path, f".{key}")
    elif isinstance(item, list | tuple):
        for index, child in enumerate(cast("Sequence[object]", item)):
            yield child, _below(path, f"[{index}]")


def _below(path: str, step: str) -> str:
    return f"{path}{step}" if len(path) < 200 else path


def _own_problem(item: object, path: str) -> Problem | None:
    if isinstance(item, str):
        return _text_problem(item, path, "a text")
    if isinstance(item, float):
        return None if math.isfinite(item) else _not_finite(path)
    if isinstance(item, int):
        return None if -_MAX_INTEGER < item < _MAX_INTEGER else _too_long(path)
    if isinstance(item, dict):
        return _key_problem(cast("dict[object, object]", item), path)
    if item is None or isinstance(item, list | tuple):
        return None
    return Problem("not_json", path, f"is a {type(item).__name__}, which JSON does not have")


def _key_problem(item: dict[object, object], path: str) -> Problem | None:
    for key in item:
        if not isinstance(key, str):
            return Problem("not_json", path, "has a key that is not a text")
        problem = _text_problem(key, path, "a key")
        if problem is not None:
            return problem
    return None


def _text_problem(item: str, path: str, what: str) -> Problem | None:
    if "\x00" in item:
        return Problem("nul", path, f"has {what} with a NUL character, which cannot be stored")
    try:
        item.encode()
    except UnicodeEncodeError:
        return Problem(
            "lone_surrogate", path, f"has {what} with half a surrogate pair, which is no character"
        )
    return None


def _not_finite(path: str) -> Problem:
    return Problem("not_finite", path, "is NaN or infinite, which JSON does not have")


def _too_long(path: str) -> Problem:
    return Problem(
        "integer_too_long", path, f"is a whole number of more than {MAX_INTEGER_DIGITS} digits"
    )
