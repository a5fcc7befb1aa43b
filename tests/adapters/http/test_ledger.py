"""Delivering facts: what each answer of the ledger means for the outbox (C26)."""

from datetime import UTC, datetime, timedelta

import pytest

from deepline.adapters.http.executor_tokens import TokenCredentials
from deepline.adapters.http.ledger import HttpLedger
from deepline.adapters.http.limited_client import LimitedClient
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.ledger import Fact
from deepline.ports.errors import CapacityExceeded, OutcomeUnknown, Refused, Unavailable
from tests.adapters.http.scripted import Asked, Wire, scripted

CREDENTIALS = TokenCredentials(internal_token="internal-secret")
FACTS = [
    Fact(
        run_id=RunId("run_1"),
        seq=seq,
        event_id=f"e{seq}",
        kind="run.created",
        payload={"n": seq},
        occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    for seq in (1, 2)
]


def launch(url: str) -> Launch:
    """A launch pinned to this gateway."""
    return Launch(
        run_id=RunId("run_1"),
        org_id=OrgId("alice"),
        play_name="p",
        graph_hash="g",
        base_url=url,
    )


async def test_facts_are_delivered_in_order_with_the_internal_token() -> None:
    """One call carries all facts of a run, as the wire page says."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.reply(200, {"applied": 2})

    async with scripted(script) as server, LimitedClient() as client:
        await HttpLedger(client, CREDENTIALS).deliver(launch(server.url), FACTS)

    (asked,) = server.asked
    assert asked.target == "/api/internal/ledger/events"
    assert asked.headers["x-deepline-internal-token"] == "internal-secret"
    assert asked.document() == {
        "runId": "run_1",
        "orgId": "alice",
        "facts": [
            {
                "seq": seq,
                "eventId": f"e{seq}",
                "kind": "run.created",
                "payload": {"n": seq},
                "occurredAtMs": 1_767_225_600_000,
            }
            for seq in (1, 2)
        ],
    }


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        pytest.param(200, "<html>", Unavailable, id="page-instead-of-an-answer"),
        pytest.param(500, {}, Unavailable, id="server-error"),
        pytest.param(502, "<html>", Unavailable, id="bad-gateway"),
        pytest.param(408, "", Unavailable, id="timeout"),
        pytest.param(429, "", Unavailable, id="rate-limit"),
        pytest.param(
            503, {"code": "RUNTIME_SCHEDULER_CAPACITY", "retryAfterMs": 700}, CapacityExceeded,
            id="capacity",
        ),
        pytest.param(401, {}, Refused, id="unauthenticated"),
        pytest.param(422, {"code": "invalid_request"}, Refused, id="malformed"),
        pytest.param(302, "", Refused, id="redirect"),
    ],
)  # fmt: skip
async def test_what_an_answer_means(status: int, body: object, kind: type[Exception]) -> None:
    """The outbox tries again after all but a refusal."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.reply(status, body)

    async with scripted(script) as server, LimitedClient() as client:
        with pytest.raises(kind) as failure:
            await HttpLedger(client, CREDENTIALS).deliver(launch(server.url), FACTS)

    assert "internal-secret" not in str(failure.value)
    if isinstance(failure.value, CapacityExceeded):
        assert failure.value.retry_after == timedelta(milliseconds=700)


async def test_a_delivery_without_an_answer_has_an_unknown_outcome() -> None:
    """The facts may have been applied; event ids make sending them again harmless (F50)."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.cut()

    async with scripted(script) as server, LimitedClient() as client:
        with pytest.raises(OutcomeUnknown):
            await HttpLedger(client, CREDENTIALS).deliver(launch(server.url), FACTS)
