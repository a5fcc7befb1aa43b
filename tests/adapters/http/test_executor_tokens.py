"""The executor-token request against servers that do everything wrong (C16, A2, Q36)."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import attrs
import pytest
import trio

from deepline.adapters.http.executor_tokens import HttpExecutorTokens, TokenCredentials
from deepline.adapters.http.limited_client import ClientLimits, LimitedClient
from deepline.adapters.memory import MemoryTelemetry, TrioTimeClock
from deepline.core.limits import Limits
from deepline.core.model.identity import AttemptRef, LeaseToken, OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.launch import Launch
from deepline.ports.errors import (
    ExecutorTokenCapacity,
    ExecutorTokenUnavailable,
    Refused,
)
from tests.adapters.http.scripted import Asked, Script, Wire, scripted

REF = AttemptRef(RunId("run_1"), 2, LeaseToken("lease-secret"))
CREDENTIALS = TokenCredentials(internal_token="internal-secret")
TOKEN = {"executorToken": "minted-secret", "expiresAtMs": 1_800_000_000_000}


@attrs.frozen
class Bench:
    """An adapter, and what it logged."""

    tokens: HttpExecutorTokens
    telemetry: MemoryTelemetry


@asynccontextmanager
async def bench(
    *, budget_s: float = 30, credentials: TokenCredentials = CREDENTIALS
) -> AsyncIterator[Bench]:
    """An adapter of the usual make, with its budget."""
    telemetry = MemoryTelemetry()
    async with LimitedClient(ClientLimits(connections=4, connect_s=5)) as client:
        tokens = HttpExecutorTokens(
            client,
            credentials,
            limits=Limits(token_request=timedelta(seconds=budget_s)),
            clock=TrioTimeClock(),
            telemetry=telemetry,
            chance=random.Random(1),
            scheduler_schema="deepline",
        )
        yield Bench(tokens, telemetry)


def launch(url: str) -> Launch:
    """A launch pinned to this gateway."""
    return Launch(
        run_id=REF.run_id,
        org_id=OrgId("alice"),
        play_name="p",
        graph_hash="g",
        base_url=url,
    )


def answering(status: int, body: object, **headers: str) -> Script:
    """A server that always answers so."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.reply(status, body, **headers)

    return script


async def test_the_request_proves_the_attempt_and_nothing_more() -> None:
    """Method, path, headers and body are the contract's; the token and its end come back."""
    credentials = TokenCredentials(internal_token="internal-secret", front_door_bypass="door")
    async with scripted(answering(200, TOKEN)) as server, bench(credentials=credentials) as one:
        token = await one.tokens.mint(launch(f"{server.url}/"), REF)

    (asked,) = server.asked
    assert token.value == "minted-secret"
    assert token.expires_at == datetime.fromtimestamp(1_800_000_000, tz=UTC)
    assert (asked.method, asked.target) == (
        "POST",
        "/api/internal/runtime/attempt-executor-token",
    )
    assert asked.document() == {
        "runId": "run_1",
        "attempt": 2,
        "leaseToken": "lease-secret",
        "schedulerSchema": "deepline",
        "terminalReducerContract": "DIRECT_COMPLETED_TERMINAL_CONTRACT",
    }
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["x-deepline-internal-token"] == "internal-secret"
    assert asked.headers["x-vercel-protection-bypass"] == "door"
    assert len(asked.headers["x-deepline-runtime-trace-id"]) == 32


async def test_a_minted_token_is_logged_without_its_secrets() -> None:
    """The log tells of success, with the trace id that was sent (I46)."""
    async with scripted(answering(200, TOKEN)) as server, bench() as one:
        await one.tokens.mint(launch(server.url), REF)

    (event,) = one.telemetry.named("request_succeeded")
    assert (event.level, event.channel) == ("info", "runtime-attempt-token")
    assert event.fields["runId"] == "run_1"
    assert event.fields["traceId"] == server.asked[0].headers["x-deepline-runtime-trace-id"]
    for secret in ("lease-secret", "internal-secret", "minted-secret"):
        assert secret not in repr(event)
        assert secret not in repr(CREDENTIALS)


async def test_without_a_front_door_there_is_no_bypass() -> None:
    """The protection header is sent only where one is configured (Q08)."""
    async with scripted(answering(200, TOKEN)) as server, bench() as one:
        await one.tokens.mint(launch(server.url), REF)

    assert "x-vercel-protection-bypass" not in server.asked[0].headers


UNAVAILABLE = ExecutorTokenUnavailable
CAPACITY = ExecutorTokenCapacity
FULL = {"code": "RUNTIME_SCHEDULER_CAPACITY", "retryAfterMs": 2_500}


@pytest.mark.parametrize(
    ("status", "body", "kind", "seen_status"),
    [
        pytest.param(200, "<html>gateway</html>", UNAVAILABLE, 200, id="html-page"),
        pytest.param(200, "", UNAVAILABLE, 200, id="empty-body"),
        pytest.param(200, None, UNAVAILABLE, 200, id="literal-null"),
        pytest.param(200, '{"executorToken": "x', UNAVAILABLE, 200, id="json-cut"),
        pytest.param(200, '{"executorToken": NaN}', UNAVAILABLE, 200, id="json-with-nan"),
        pytest.param(204, "", UNAVAILABLE, 204, id="no-content"),
        pytest.param(200, {}, Refused, None, id="no-token"),
        pytest.param(200, [], Refused, None, id="a-list"),
        pytest.param(200, {"executorToken": 7}, Refused, None, id="token-is-a-number"),
        pytest.param(200, {"executorToken": ""}, Refused, None, id="token-is-empty"),
        pytest.param(500, {"error": "boom"}, UNAVAILABLE, 500, id="server-error"),
        pytest.param(502, "<html>bad gateway</html>", UNAVAILABLE, 502, id="bad-gateway-page"),
        pytest.param(503, {}, UNAVAILABLE, 503, id="unavailable"),
        pytest.param(408, "", UNAVAILABLE, 408, id="request-timeout"),
        pytest.param(429, {"code": "SLOW_DOWN"}, UNAVAILABLE, 429, id="rate-limit"),
        pytest.param(429, FULL, CAPACITY, None, id="capacity-coded-429"),
        pytest.param(503, FULL, CAPACITY, None, id="capacity-coded-503"),
        pytest.param(400, FULL, CAPACITY, None, id="capacity-coded-400"),
        pytest.param(200, FULL, CAPACITY, None, id="capacity-coded-200"),
        pytest.param(302, "", Refused, None, id="redirect"),
        pytest.param(307, {"executorToken": "x"}, Refused, None, id="redirect-with-a-token"),
        pytest.param(401, {"error": "who are you"}, Refused, None, id="unauthenticated"),
        pytest.param(403, "<html>no</html>", Refused, None, id="forbidden-page"),
        pytest.param(404, "<html>no</html>", Refused, None, id="not-found-page"),
        pytest.param(409, {"code": "attempt_not_live"}, Refused, None, id="fence-lost"),
        pytest.param(422, {}, Refused, None, id="unprocessable"),
    ],
)
async def test_what_an_answer_means(
    status: int, body: Json, kind: type[Exception], seen_status: int | None
) -> None:
    """Each answer is an outage, no room, or an ordinary failure, as the table says."""
    headers = {"location": "/elsewhere"} if 300 <= status < 400 else {}

    async def script(_: Asked, wire: Wire) -> None:
        if status == 204:
            await wire.head(204)
            await wire.end()
        else:
            await wire.reply(status, body, **headers)

    async with scripted(script) as server, bench() as one:
        with pytest.raises(kind) as failure:
            await one.tokens.mint(launch(server.url), REF)

    assert len(server.asked) == 1
    if isinstance(failure.value, ExecutorTokenUnavailable):
        assert failure.value.status == seen_status
    if isinstance(failure.value, ExecutorTokenCapacity):
        assert failure.value.retry_after == timedelta(milliseconds=2_500)
    (event,) = one.telemetry.named("request_failed")
    assert (event.level, event.fields["status"]) == ("warn", status)


async def test_a_failure_names_the_host_and_what_the_server_said() -> None:
    """Code, status, host and the server's words; never the whole address."""
    async with scripted(answering(409, {"code": "x_code", "error": "gone"})) as server:
        address = server.url.replace("http://", "http://user:pass@") + "/base?secret=1"
        async with bench() as one:
            with pytest.raises(Refused) as failure:
                await one.tokens.mint(launch(address), REF)

    text = str(failure.value)
    assert "[x_code] (409) at 127.0.0.1: gone" in text
    for hidden in ("user", "pass", "/base", "secret"):
        assert hidden not in text
        assert hidden not in repr(one.telemetry.events)


async def hang(_: Asked, __: Wire) -> None:
    """Never answer."""
    await trio.sleep_forever()


async def cut(_: Asked, wire: Wire) -> None:
    """Hang up instead of answering."""
    await wire.cut()


async def garbage(_: Asked, wire: Wire) -> None:
    """Answer in no known tongue."""
    await wire.raw(b"\x00\xff\x00 what?\r\n\r\n")
    await wire.cut()


@pytest.mark.parametrize(
    ("script", "budget_s"),
    [
        pytest.param(hang, 0.2, id="hang-before-headers"),
        pytest.param(cut, 30, id="hang-up-before-headers"),
        pytest.param(garbage, 30, id="garbage"),
    ],
)
async def test_no_answer_at_all_is_a_transport_outage(script: Script, budget_s: float) -> None:
    """Without a response there is no status, and the code says TRANSPORT."""
    async with scripted(script) as server, bench(budget_s=budget_s) as one:
        with trio.fail_after(5), pytest.raises(ExecutorTokenUnavailable) as failure:
            await one.tokens.mint(launch(server.url), REF)

    (event,) = one.telemetry.named("request_failed")
    assert failure.value.status is None
    assert "[TRANSPORT]" in str(failure.value)
    assert event.fields["status"] is None
    assert event.fields["code"] == "TRANSPORT"
    assert event.fields["error"]
    assert isinstance(event.fields["durationMs"], int)


async def test_a_refused_connection_is_a_transport_outage() -> None:
    """Nobody listens: the gateway restarts, and the attempt may wait."""
    async with scripted(hang) as server:
        pass
    async with bench() as one:
        with pytest.raises(ExecutorTokenUnavailable) as failure:
            await one.tokens.mint(launch(server.url), REF)

    assert failure.value.status is None


@pytest.mark.parametrize("address", ["http://host.invalid", "ftp://x", "no address", "http://[::1"])
async def test_an_address_that_leads_nowhere_is_a_transport_outage(address: str) -> None:
    """Names that do not resolve and texts that are no address give no response either."""
    async with bench() as one:
        with trio.fail_after(20), pytest.raises(ExecutorTokenUnavailable) as failure:
            await one.tokens.mint(launch(address), REF)

    assert failure.value.status is None


async def drip(_: Asked, wire: Wire) -> None:
    """Send a good answer one byte at a time, too slowly for the budget."""
    await wire.head(200, content_length="1000")
    for _number in range(1_000):
        await wire.part(b" ")
        await trio.sleep(0.02)


async def drip_an_error(_: Asked, wire: Wire) -> None:
    """The same with a status of refusal."""
    await wire.head(409, content_length="1000")
    await wire.part(b"{")
    await trio.sleep_forever()


async def break_off(_: Asked, wire: Wire) -> None:
    """Promise more than is sent."""
    await wire.head(200, content_length="1000")
    await wire.part(b'{"executorToken": "x"')
    await wire.cut()


async def flood(_: Asked, wire: Wire) -> None:
    """Send a body without end."""
    await wire.head(200, content_type="application/json")
    while True:
        await wire.part(b" " * 65_536)


@pytest.mark.parametrize(
    ("script", "budget_s", "kind", "status"),
    [
        pytest.param(drip, 0.3, ExecutorTokenUnavailable, 200, id="drip"),
        pytest.param(drip_an_error, 0.3, Refused, 409, id="drip-of-a-refusal"),
        pytest.param(break_off, 30, ExecutorTokenUnavailable, 200, id="cut-in-the-body"),
        pytest.param(flood, 30, ExecutorTokenUnavailable, 200, id="huge-body"),
    ],
)
async def test_a_body_that_does_not_end_well_is_no_json(
    script: Script, budget_s: float, kind: type[Exception], status: int
) -> None:
    """One budget covers headers and body, and what is read is bounded (A2)."""
    async with scripted(script) as server, bench(budget_s=budget_s) as one:
        with trio.fail_after(5), pytest.raises(kind):
            await one.tokens.mint(launch(server.url), REF)

    (event,) = one.telemetry.named("request_failed")
    assert event.fields["status"] == status


async def test_waiting_for_a_connection_counts_against_the_budget() -> None:
    """A request that never gets to the wire is an outage like any other."""
    async with scripted(hang) as server, bench(budget_s=0.3) as one:
        failures: list[ExecutorTokenUnavailable] = []

        async def mint() -> None:
            try:
                await one.tokens.mint(launch(server.url), REF)
            except ExecutorTokenUnavailable as failure:
                failures.append(failure)

        with trio.fail_after(2):
            async with trio.open_nursery() as nursery:
                for _ in range(12):
                    nursery.start_soon(mint)

    assert len(failures) == 12
    assert len(server.asked) < 12


async def test_a_cancelled_request_is_over_at_once_and_says_nothing() -> None:
    """The caller's cancellation is no outage of the route."""
    async with scripted(hang) as server, bench() as one:
        with trio.fail_after(2), trio.move_on_after(0.1):
            await one.tokens.mint(launch(server.url), REF)

    assert one.telemetry.events == []
