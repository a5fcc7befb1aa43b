"""How long a token outage is waited out: fresh attempts and detached wakes (C17, C18, A3).

Two bounds, for two reasons. Nobody else can finish the run of a fresh attempt, so its unbroken
outage is bounded by ten minutes of wall-clock. A detached runner may still push its own
terminal, so its wake waits up to the runner's ceiling, and writes nothing while waiting.
The rule answers; it is the caller who defers, or salvages by force (C20).
"""

import math
from datetime import datetime, timedelta
from typing import TypeAlias

import attrs

from deepline.core.instants import iso, length_ms
from deepline.core.model.json_value import JsonObject
from deepline.core.model.why import Why

_SECOND = timedelta(seconds=1)


@attrs.frozen(kw_only=True)
class OutageDeferred:
    """Wait `delay` and try again; spends no engine attempt.

    For a fresh attempt `outage_started_at` is what the next attempt must carry. For a detached
    wake `deadline` is the runner's ceiling.
    """

    delay: timedelta
    outage_started_at: datetime | None = None
    deadline: datetime | None = None
    why: Why


@attrs.frozen(kw_only=True)
class OutageExhausted:
    """The bound is reached: nothing is written here and the run must be salvaged by force."""

    outage_started_at: datetime | None = None
    deadline: datetime | None = None
    why: Why


OutageDecision: TypeAlias = OutageDeferred | OutageExhausted


def carried_outage_start(
    predecessor_started_at: datetime | None, *, retired_for_outage: bool
) -> datetime | None:
    """What a new attempt inherits: the start, only from one retired for the same outage (Q31)."""
    return predecessor_started_at if retired_for_outage else None


def outage_of_fresh_attempt(
    now: datetime, outage_started_at: datetime | None, *, longest: timedelta, delay: timedelta
) -> OutageDecision:
    """Decide for an attempt without a live runner; the outage starts now unless one is carried."""
    started = now if outage_started_at is None else outage_started_at
    evidence: JsonObject = {
        "outage_started_at": iso(started),
        "outage_ms": length_ms(now - started),
        "longest_ms": length_ms(longest),
    }
    if now - started < longest:
        why = Why("token_outage.deferred", evidence)
        return OutageDeferred(delay=delay, outage_started_at=started, why=why)
    return OutageExhausted(
        outage_started_at=started, why=Why("token_outage.bound_exhausted", evidence)
    )


def outage_of_detached_wake(
    now: datetime, ceiling_at: datetime | None, *, longest_delay: timedelta
) -> OutageDecision:
    """Decide for an attempt whose detached runner may be alive.

    `ceiling_at` is `None` when the suspension is missing or malformed, and then nothing bounds
    the wait, so there is none. The delay is whole seconds, between 1 s and `longest_delay`, and
    never ends later than a second after the ceiling.
    """
    evidence: JsonObject = {
        "now": iso(now),
        "deadline": None if ceiling_at is None else iso(ceiling_at),
    }
    if ceiling_at is None:
        return OutageExhausted(why=Why("token_outage.detached_without_deadline", evidence))
    if now >= ceiling_at:
        why = Why("token_outage.detached_ceiling_reached", evidence)
        return OutageExhausted(deadline=ceiling_at, why=why)
    whole_seconds = math.ceil((ceiling_at - now) / _SECOND) * _SECOND
    return OutageDeferred(
        delay=max(_SECOND, min(longest_delay, whole_seconds)),
        deadline=ceiling_at,
        why=Why("token_outage.detached_deferred", evidence),
    )
