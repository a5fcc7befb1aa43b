"""Suspensions as JSON, as they stand on the attempt's row and in pushed results (C29, C30)."""

from typing import assert_never

from deepline.core.instants import length_ms, to_ms
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.suspension import (
    DetachedSuspension,
    EventSuspension,
    SleepSuspension,
    Suspension,
)
from deepline.ports.errors import MalformedDocument
from deepline.ports.wire import fields

DEFAULT_PROVIDER = "daytona"
"""The provider meant by a suspension that names none."""


def suspension_to_json(suspension: Suspension) -> dict[str, Json]:
    """Encode; lengths and instants are cut to whole milliseconds."""
    match suspension:
        case DetachedSuspension():
            return _detached_to_json(suspension)
        case SleepSuspension():
            return {
                "kind": "sleep",
                "boundaryId": suspension.boundary_id,
                "runnerAttempt": suspension.runner_attempt,
                "wakeAtMs": to_ms(suspension.wake_at),
            }
        case EventSuspension(expires_at=expires_at):
            return {
                "kind": "integration_event",
                "boundaryId": suspension.boundary_id,
                "runnerAttempt": suspension.runner_attempt,
                "eventKey": suspension.event_key,
                "expiresAtMs": None if expires_at is None else to_ms(expires_at),
            }
        case _:
            assert_never(suspension)


def suspension_from_json(value: object, path: str = "") -> Suspension:
    """Parse; raises `MalformedDocument`. A malformed heartbeat timeout becomes `None`."""
    document = fields.as_object(value, path)
    kind = document.get("kind")
    if kind == "detached_runner":
        return _detached_from_json(document, path)
    if kind == "sleep":
        return SleepSuspension(
            boundary_id=fields.text(document, "boundaryId", path),
            runner_attempt=fields.count(document, "runnerAttempt", path),
            wake_at=fields.instant(document, "wakeAtMs", path),
        )
    if kind == "integration_event":
        return EventSuspension(
            boundary_id=fields.text(document, "boundaryId", path),
            runner_attempt=fields.count(document, "runnerAttempt", path),
            event_key=fields.text(document, "eventKey", path),
            expires_at=fields.optional_instant(document, "expiresAtMs", path),
        )
    raise MalformedDocument(
        fields.join(path, "kind"), "must be detached_runner, sleep or integration_event"
    )


def _detached_to_json(suspension: DetachedSuspension) -> dict[str, Json]:
    timeout = suspension.heartbeat_timeout
    document: dict[str, Json] = {
        "kind": "detached_runner",
        "boundaryId": suspension.boundary_id,
        "runnerAttempt": suspension.runner_attempt,
        "sandboxId": suspension.sandbox_id,
        "sandboxProvider": suspension.sandbox_provider,
        "sessionId": suspension.session_id,
        "cmdId": suspension.command_id,
        "startedAtMs": to_ms(suspension.started_at),
        "ceilingMs": length_ms(suspension.ceiling),
    }
    if timeout is not None:
        document["heartbeatTimeoutMs"] = length_ms(timeout)
    if suspension.routing_domain is not None:
        document["routingDomain"] = suspension.routing_domain
    return document


def _detached_from_json(document: JsonObject, path: str) -> DetachedSuspension:
    return DetachedSuspension(
        boundary_id=fields.text(document, "boundaryId", path),
        runner_attempt=fields.count(document, "runnerAttempt", path),
        sandbox_id=fields.text(document, "sandboxId", path),
        sandbox_provider=fields.optional_text(document, "sandboxProvider", path)
        or DEFAULT_PROVIDER,
        session_id=fields.text(document, "sessionId", path),
        command_id=fields.text(document, "cmdId", path),
        started_at=fields.instant(document, "startedAtMs", path),
        ceiling=fields.length(document, "ceilingMs", path),
        heartbeat_timeout=fields.tolerant_length(document.get("heartbeatTimeoutMs")),
        routing_domain=fields.optional_text(document, "routingDomain", path),
    )
