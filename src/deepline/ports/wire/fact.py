"""Ledger facts as JSON, as they are delivered (C26, `POST /api/internal/ledger/events`)."""

from deepline.core.instants import to_ms
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from deepline.core.model.ledger import Fact
from deepline.ports.wire import fields


def fact_to_json(fact: Fact) -> dict[str, Json]:
    """Encode one fact; the run's id stands once beside the list of its facts."""
    return {
        "seq": fact.seq,
        "eventId": fact.event_id,
        "kind": fact.kind,
        "payload": fact.payload,
        "occurredAtMs": to_ms(fact.occurred_at),
    }


def fact_from_json(run_id: RunId, value: object, path: str = "") -> Fact:
    """Parse one fact of this run; raises `MalformedDocument`."""
    document = fields.as_object(value, path)
    payload = fields.optional_object(document, "payload", path)
    return Fact(
        run_id=run_id,
        seq=fields.count(document, "seq", path, least=1),
        event_id=fields.text(document, "eventId", path),
        kind=fields.text(document, "kind", path),
        payload={} if payload is None else payload,
        occurred_at=fields.instant(document, "occurredAtMs", path),
    )
