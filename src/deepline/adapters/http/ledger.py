"""Delivering facts to the ledger of the gateway pinned in the launch (C26.4)."""

from collections.abc import Sequence
from datetime import timedelta

from deepline.adapters.http.executor_tokens import TokenCredentials
from deepline.adapters.http.limited_client import Answer, Call, LimitedClient
from deepline.core.capacity_deferral import DEFAULT_RETRY_AFTER, parse_capacity
from deepline.core.executor_token import host_of
from deepline.core.model.json_value import Json
from deepline.core.model.launch import Launch
from deepline.core.model.ledger import Fact
from deepline.ports.errors import (
    CapacityExceeded,
    MalformedDocument,
    Refused,
    Unavailable,
    UnavailableKind,
)
from deepline.ports.wire import encode_json, fact_to_json, parse_json

PATH = "/api/internal/ledger/events"
_ANSWER_BYTES = 64 << 10
_TRANSIENT = {408, 425, 429}


class HttpLedger:
    """The run ledger of a gateway, which applies each event id once, so repeating is safe."""

    def __init__(self, client: LimitedClient, credentials: TokenCredentials) -> None:
        self._client = client
        self._credentials = credentials

    async def deliver(self, launch: Launch, facts: Sequence[Fact]) -> None:
        """Post all facts of the run in one request, in order; raises what the port says."""
        body = encode_json(
            {
                "runId": launch.run_id,
                "orgId": launch.org_id,
                "facts": [fact_to_json(fact) for fact in facts],
            }
        )
        call = Call(
            method="POST",
            url=launch.base_url.rstrip("/") + PATH,
            headers=self._credentials.headers(),
            content=body.encode(),
            idempotent=False,
        )
        answer = await self._client.request(call, answer_bytes=_ANSWER_BYTES)
        _check(answer, host_of(launch.base_url))


def _check(answer: Answer, host: str) -> None:
    parsed = _parsed(answer)
    status = answer.status
    if 200 <= status < 300:
        if parsed is None:
            raise Unavailable(f"the ledger at {host} answered {status} without JSON")
        return
    capacity = parse_capacity(parsed)
    if capacity is not None:
        raise CapacityExceeded(
            f"the ledger at {host} has no room",
            _or_default(capacity.retry_after),
            "ledger",
        )
    if status >= 500 or status in _TRANSIENT:
        raise Unavailable(
            f"the ledger at {host} answered {status}", UnavailableKind.SERVER_UNAVAILABLE
        )
    raise Refused("ledger_refused", f"the ledger at {host} answered {status}")


def _parsed(answer: Answer) -> Json:
    if answer.body is None:
        return None
    try:
        return parse_json(answer.body, _ANSWER_BYTES)
    except MalformedDocument:
        return None


def _or_default(length: timedelta | None) -> timedelta:
    return DEFAULT_RETRY_AFTER if length is None else length
