"""What the store can hold (Q54): JSON without NaN, NUL and half characters, within a bound.

What a play hands over is copied into plain values first: tuples become lists and whole-number
keys become text, so that a value read back later is the same as the one handed over now.
"""

import json
import math

DEPTH_MAX = 200
INTEGER_DIGITS_MAX = 4_000
_INTEGER_MAX = 10**INTEGER_DIGITS_MAX


class NotStorable(ValueError):
    """A value that cannot be stored. The message says where in the value, and why."""


def storable(value: object, path: str = "$", depth: int = 0) -> object:
    """A plain copy of the value; raises `NotStorable` for the first thing that cannot be stored."""
    if depth > DEPTH_MAX:
        raise NotStorable(f"it nests deeper than {DEPTH_MAX} levels")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int):
        return _integer(value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotStorable(f"{path} is {float(value)}, which JSON does not have")
        return float(value)
    if isinstance(value, dict):
        return _fields(value, path, depth)
    if isinstance(value, list | tuple):
        return [storable(item, f"{path}[{at}]", depth + 1) for at, item in enumerate(value)]
    raise NotStorable(f"{path} is a {type(value).__name__}, which JSON does not have")


def encode(value: object) -> bytes:
    """The compact JSON of a plain value."""
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False
    ).encode()


def encode_storable(value: object, bytes_max: int, path: str = "$") -> bytes:
    """The JSON of a value that can be stored; raises `NotStorable`."""
    text = encode(storable(value, path))
    if len(text) > bytes_max:
        raise NotStorable(f"it is {len(text)} bytes long, and the most is {bytes_max}")
    return text


def _fields(value: dict[object, object], path: str, depth: int) -> dict[str, object]:
    fields: dict[str, object] = {}
    for key, item in value.items():
        name = _key(key, path)
        if name in fields:
            raise NotStorable(f"{path} has two keys that are both {name!r} in JSON")
        fields[name] = storable(item, f"{path}.{name[:40]}", depth + 1)
    return fields


def _key(key: object, path: str) -> str:
    if isinstance(key, str):
        return _text(key, f"a key of {path}")
    if isinstance(key, int) and not isinstance(key, bool):
        return str(_integer(key, f"a key of {path}"))
    raise NotStorable(f"{path} has a key that is a {type(key).__name__}; use text")


def _text(value: str, path: str) -> str:
    if "\x00" in value:
        raise NotStorable(f"{path} holds a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotStorable(f"{path} holds half of a surrogate pair, which is no character") from None
    return str.__str__(value)


def _integer(value: int, path: str) -> int:
    if not -_INTEGER_MAX < value < _INTEGER_MAX:
        raise NotStorable(f"{path} is a whole number of more than {INTEGER_DIGITS_MAX} digits")
    return int(value)
