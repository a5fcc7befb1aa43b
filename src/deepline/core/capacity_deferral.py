"""No room is no failure: put the work off by the time the other side asked for (C54, Q48, I15)."""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import TypeAlias

import attrs

from deepline.core.failures import CapacityFailure
from deepline.core.instants import MILLISECOND, length_ms
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.why import Why

CAPACITY_CODE = "RUNTIME_SCHEDULER_CAPACITY"
DEFAULT_RETRY_AFTER = timedelta(seconds=5)
SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(seconds=60)
JITTER = 0.2
"""How much of the wait chance may add, so that those turned away together come back apart."""


@attrs.frozen(kw_only=True)
class RetireForCapacity:
    """Give the fresh attempt up, with its cleanup obligation, and queue its run again."""

    delay: timedelta
    reason: str
    why: Why


@attrs.frozen(kw_only=True)
class DeferForCapacity:
    """Put the engine run off and write nothing else: no attempt exists, or its runner may live."""

    delay: timedelta
    reason: str
    why: Why


CapacityDeferral: TypeAlias = RetireForCapacity | DeferForCapacity


def parse_capacity(body: Json) -> CapacityFailure | None:
    """Recognise a capacity failure that another process answered; `None` when it is none.

    A missing or unusable `retryAfterMs` leaves the time to the default.
    """
    if not isinstance(body, Mapping) or body.get("code") != CAPACITY_CODE:
        return None
    return CapacityFailure(reason=CAPACITY_CODE, retry_after=_length(body.get("retryAfterMs")))


def defer_for_capacity(
    failure: CapacityFailure, *, fresh_attempt: bool, chance: float
) -> CapacityDeferral:
    """Decide the wait, between 1 and 60 s before chance adds up to a fifth.

    `fresh_attempt` says that an attempt exists and that no runner was started for it. `chance`
    is a number in [0, 1).
    """
    asked = DEFAULT_RETRY_AFTER if failure.retry_after is None else failure.retry_after
    delay = min(LONGEST, max(SHORTEST, asked)) * (1 + JITTER * chance)
    evidence: JsonObject = {
        "source": failure.source,
        "delay_ms": length_ms(delay),
    }
    if fresh_attempt:
        why = Why("capacity_deferral.retired", evidence)
        return RetireForCapacity(delay=delay, reason=failure.reason, why=why)
    why = Why("capacity_deferral.deferred", evidence)
    return DeferForCapacity(delay=delay, reason=failure.reason, why=why)


def _length(value: Json) -> timedelta | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value) or value < 0:
        return None
    return timedelta(milliseconds=min(value, LONGEST / MILLISECOND))
