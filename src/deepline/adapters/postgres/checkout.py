"""What a connection was lent for, told of loans that took long (C59).

A slow store looks the same from everywhere; this says which step waited for a connection or held
one, and for which run. Nothing is read of what was asked unless there is something to tell.
"""

import json
import re
from collections.abc import Callable, Sequence

import attrs

SLOW_S = 1.0
"""A loan is a round trip or a few: one that takes a second is worth a line."""
_CALLED = re.compile(r"\{schema\}\.([a-z_]+)")


@attrs.frozen
class Purpose:
    """The step that borrows, by the name of its function or of the first thing it reads.

    `requests` are the step's, as JSON texts.
    """

    phase: str
    requests: Sequence[str] = ()


UNNAMED = Purpose("unnamed")


@attrs.frozen(kw_only=True)
class SlowCheckout:
    """A loan that took long: seconds until it was made, and seconds until it came back.

    `run_id` is the first run of a step that many share; `None` where the step names none.
    """

    phase: str
    run_id: str | None
    requests: int
    waited_s: float
    held_s: float


Told = Callable[[SlowCheckout], None]


def slow_checkout(purpose: Purpose, *, waited_s: float, held_s: float) -> SlowCheckout | None:
    """What is to be told of a loan, `None` when it was short."""
    if waited_s < SLOW_S and held_s < SLOW_S:
        return None
    return SlowCheckout(
        phase=purpose.phase,
        run_id=_first_run(purpose.requests),
        requests=len(purpose.requests),
        waited_s=waited_s,
        held_s=held_s,
    )


def purpose_of_query(query: str) -> Purpose:
    """The purpose of a query that only reads, from its text with `{schema}` in it."""
    found = _CALLED.search(query)
    return UNNAMED if found is None else Purpose(found.group(1))


def _first_run(requests: Sequence[str]) -> str | None:
    first = json.loads(requests[0]) if requests else None
    named = first.get("run_id") if isinstance(first, dict) else None
    return named if isinstance(named, str) else None
