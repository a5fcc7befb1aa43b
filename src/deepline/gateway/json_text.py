"""JSON text to values and back, strictly: no NaN, no runaway nesting, no surprise errors."""

import json
from collections.abc import Iterable

from deepline.core.model.json_value import Json

DEEPEST = 64


class InvalidJson(Exception):
    """The text is no JSON that we accept; the message is safe to show."""


def parse_json(text: bytes | str, *, deepest: int = DEEPEST) -> Json:
    """Parse strict JSON. Raises `InvalidJson`, also for nesting deeper than `deepest`."""
    try:
        value: Json = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise InvalidJson(f"the JSON nests deeper than {deepest} levels") from None
    except ValueError:
        raise InvalidJson("the text is not valid JSON in UTF-8") from None
    if _deeper_than(value, deepest):
        raise InvalidJson(f"the JSON nests deeper than {deepest} levels")
    return value


def render_json(value: Json) -> bytes:
    """Render compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _no_constant(name: str) -> Json:
    raise ValueError(name)


def _deeper_than(value: Json, deepest: int) -> bool:
    level = _nests([value])
    for _ in range(deepest):
        if not level:
            return False
        level = [child for parent in level for child in _nests(_inside(parent))]
    return bool(level)


def _nests(values: Iterable[Json]) -> list[Json]:
    # What `json` builds is exactly dict and list, so the cheap test of the type is enough.
    return [value for value in values if type(value) in {dict, list}]


def _inside(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
