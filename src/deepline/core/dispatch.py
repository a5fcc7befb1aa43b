"""Which events tell of an immediate dispatch of a run's outbox (C25, A8).

The dispatch only shortens the wait until a terminal is seen; the outbox's own controller is the
guarantee. So an empty drain is information, and only work that was tried and did not get through
is a warning.
"""

from datetime import datetime
from typing import TypeAlias, assert_never

import attrs

from deepline.core.instants import MILLISECOND, to_ms
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from deepline.core.model.ledger import terminal_event_id
from deepline.core.model.log_event import Level, LogEvent

CHANNEL = "run-ledger-outbox"
UNSPECIFIED = "unspecified"


@attrs.frozen(kw_only=True)
class DispatchRequest:
    """One request to deliver a run's outbox now, and who asked when.

    `projection_started_at` is when the projection of the terminal began, `None` outside one.
    """

    run_id: RunId
    requested_at: datetime
    trigger: str | None = None
    projection_started_at: datetime | None = None

    @property
    def target_event_id(self) -> str:
        """The fact whose delivery matters: the run's terminal."""
        return terminal_event_id(self.run_id)


@attrs.frozen(kw_only=True)
class Drained:
    """The delivery came back: facts tried, facts applied, and whether the target was among them."""

    attempted: int
    projected: int
    target_delivered: bool


@attrs.frozen
class NothingReturned:
    """The delivery came back without an account, as an adapter may."""


@attrs.frozen
class DeliveryFailed:
    """The delivery raised; `error` is its message."""

    error: str


DispatchResult: TypeAlias = Drained | NothingReturned | DeliveryFailed


def requested(request: DispatchRequest) -> LogEvent:
    """The event before the delivery."""
    since: int | None = None
    if request.projection_started_at is not None:
        since = (request.requested_at - request.projection_started_at) // MILLISECOND
    return _info(
        "immediate_dispatch_requested",
        {
            "runId": request.run_id,
            "trigger": request.trigger or UNSPECIFIED,
            "requestedAtMs": to_ms(request.requested_at),
            "sinceProjectionStartMs": since,
        },
    )


def finished(
    request: DispatchRequest, result: DispatchResult, now: datetime
) -> tuple[LogEvent, ...]:
    """The events after the delivery, in order."""
    timing: dict[str, Json] = {
        "runId": request.run_id,
        "requestedAtMs": to_ms(request.requested_at),
        "durationMs": max(0, (now - request.requested_at) // MILLISECOND),
    }
    target: dict[str, Json] = {**timing, "targetEventId": request.target_event_id}
    match result:
        case DeliveryFailed(error):
            return (_warn("immediate_dispatch_failed", {**target, "error": error}),)
        case NothingReturned():
            return (_settled(timing, None),)
        case Drained(target_delivered=True):
            return (_settled(timing, result),)
        case Drained(attempted=0):
            return (_settled(timing, result), _info("immediate_dispatch_empty_claim", target))
        case Drained():
            return (_settled(timing, result), _warn("immediate_dispatch_undelivered", target))
        case _:
            assert_never(result)


def _settled(timing: dict[str, Json], drained: Drained | None) -> LogEvent:
    counts: dict[str, Json] = {
        "targetDelivered": None if drained is None else drained.target_delivered,
        "attempted": None if drained is None else drained.attempted,
        "projected": None if drained is None else drained.projected,
    }
    return _info("immediate_dispatch_settled", {**timing, **counts})


def _info(name: str, fields: dict[str, Json]) -> LogEvent:
    return LogEvent(level=Level.INFO, channel=CHANNEL, name=name, fields=fields)


def _warn(name: str, fields: dict[str, Json]) -> LogEvent:
    return LogEvent(level=Level.WARN, channel=CHANNEL, name=name, fields=fields)
