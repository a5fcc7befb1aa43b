"""Lengths and evidence in words, for people; every function takes any value and never fails."""

from datetime import UTC, datetime, timedelta

from deepline.core.instants import iso
from deepline.core.model.json_value import Json, JsonObject

_SECOND = timedelta(seconds=1)
_LONGEST_VALUE = 120
_MOST_EVIDENCE = 8


def span(length: timedelta) -> str:
    """A length in its two largest units, such as `2 h 5 min`; a negative one counts as none."""
    seconds = max(0, length // _SECOND)
    parts = [
        f"{amount} {unit}"
        for amount, unit in (
            (seconds // 86_400, "d"),
            (seconds // 3_600 % 24, "h"),
            (seconds // 60 % 60, "min"),
            (seconds % 60, "s"),
        )
        if amount
    ]
    return " ".join(parts[:2]) or "0 s"


def ago(then: datetime, now: datetime) -> str:
    """How long ago, such as `40 s ago`."""
    return f"{span(now - then)} ago"


def ahead(then: datetime, now: datetime) -> str:
    """How far ahead, such as `in 40 s`, or `now` for what is due."""
    return "now" if then <= now else f"in {span(then - now)}"


def moment(at: datetime) -> str:
    """An instant as the timeline writes it."""
    return iso(at)


def text_of(evidence: JsonObject, name: str) -> str | None:
    """A text of the evidence, shortened; `None` when there is none."""
    value = evidence.get(name)
    return shortened(value) if isinstance(value, str) and value else None


def number_of(evidence: JsonObject, name: str) -> int | None:
    """A whole number of the evidence, `None` when there is none."""
    value = evidence.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def instant_of(evidence: JsonObject, name: str) -> datetime | None:
    """An instant of the evidence, `None` when there is none that can be read."""
    value = evidence.get(name)
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def shortened(text: str) -> str:
    """A text on one line that does not flood its reader."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_VALUE else f"{line[: _LONGEST_VALUE - 1]}…"


def listed(evidence: JsonObject) -> str:
    """The evidence as `name=value` pairs, simple values only and not too many."""
    pairs = [
        f"{name.replace('_', ' ')} {_shown(value)}"
        for name, value in evidence.items()
        if value is not None and isinstance(value, str | int | float)
    ]
    return ", ".join(pairs[:_MOST_EVIDENCE])


def _shown(value: Json) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shortened(str(value))
