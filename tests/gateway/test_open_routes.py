"""What anyone may ask of a gateway, and what every answer has in common."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from deepline.ports.errors import Unavailable
from tests.gateway.deployment import ALICE, KEYS, Options, bearer, deployed


async def test_public_keys_are_served_without_private_parts() -> None:
    """The JWKS holds the public half of each key, with its id and its one algorithm."""
    async with deployed() as gateway:
        answer = await gateway.client.get("/.well-known/jwks.json")

    assert answer.json() == KEYS.jwks()
    (key,) = answer.json()["keys"]
    assert key["kty"] == "OKP"
    assert key["crv"] == "Ed25519"
    assert key["alg"] == "EdDSA"
    assert "d" not in key


async def test_health_says_nothing_of_the_store() -> None:
    """A process whose store is away is alive, so restarting it would help nobody."""

    async def probe() -> None:
        raise Unavailable("the store is away")

    async with deployed(Options(probe=probe)) as gateway:
        health = await gateway.client.get("/healthz")
        ready = await gateway.client.get("/readyz")

    assert health.status_code == 200
    assert ready.status_code == 503
    assert ready.json()["code"] == "not_ready"


async def test_ready_when_the_store_answers() -> None:
    """A gateway that can reach its store asks for work."""
    async with deployed() as gateway:
        answer = await gateway.client.get("/readyz")

    assert answer.json() == {"status": "ready"}


async def test_a_gateway_that_stops_is_not_ready() -> None:
    """A proxy in front sends its requests elsewhere while those in hand come to their end."""
    async with deployed() as gateway:
        gateway.app.state.draining.set()
        answer = await gateway.client.get("/readyz")

    assert answer.status_code == 503
    assert "stopping" in answer.json()["detail"]


async def test_metrics_are_rendered_from_what_was_collected() -> None:
    """The metrics route shows the injected exposition and asks no store (I47)."""
    async with deployed() as gateway:
        answer = await gateway.client.get("/metrics")

    assert answer.text == "deepline_up 1\n"
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        pytest.param("GET", "/nowhere", 404, "not_found", id="unknown-path"),
        pytest.param("GET", "/api/v1/runs/", 404, "not_found", id="no-redirect-for-a-slash"),
        pytest.param("DELETE", "/api/v1/runs", 405, "method_not_allowed", id="other-method"),
        pytest.param("HEAD", "/metrics", 405, None, id="head-is-not-asked-for"),
        pytest.param("GET", "/api/v1/runs", 401, "unauthenticated", id="no-key"),
        pytest.param("GET", "/api/v1/runner/launch", 401, "unauthenticated", id="no-token"),
    ],
)
async def test_every_refusal_is_a_problem(
    method: str, path: str, status: int, code: str | None
) -> None:
    """Errors of routing and of authentication have the one form of all errors."""
    async with deployed() as gateway:
        answer = await gateway.client.request(method, path)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    if code is not None:
        assert answer.json()["code"] == code
        assert answer.json()["status"] == status


async def test_answers_carry_security_headers_and_a_request_id() -> None:
    """A given request id is kept when it is harmless, else one is made."""
    async with deployed() as gateway:
        given = await gateway.client.get("/healthz", headers={"x-request-id": "req_from_a_proxy"})
        made = await gateway.client.get("/healthz", headers={"x-request-id": "no spaces, please!"})

    assert given.headers["x-request-id"] == "req_from_a_proxy"
    assert made.headers["x-request-id"].startswith("req_")
    for answer in (given, made):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "server" not in answer.headers


async def test_a_bug_shows_an_id_and_nothing_else() -> None:
    """What went wrong is in the log under the id that the caller got, never in the answer."""

    async def probe() -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError("secret detail of the inside")

    async with deployed(Options(probe=probe)) as gateway:
        answer = await gateway.client.get("/readyz")
        (event,) = gateway.telemetry.named("request_failed")

    assert answer.status_code == 500
    assert "secret detail" not in answer.text
    assert "Traceback" not in answer.text
    request_id = answer.headers["x-request-id"]
    assert answer.json()["instance"] == f"urn:deepline:request:{request_id}"
    assert event.fields["requestId"] == request_id
    assert event.fields["errorType"] == "ZeroDivisionError"
    assert "test_open_routes.py" in str(event.fields["at"])


async def test_requests_are_counted_by_route_and_never_by_what_was_typed() -> None:
    """Labels are route templates, so that their number is bounded and no id leaks (F78)."""
    async with deployed() as gateway:
        await gateway.client.get("/api/v1/runs/some-run", headers=bearer(ALICE))
        await gateway.client.get("/typed/by/somebody")
        await wait_all_tasks_blocked()
        counts = dict(gateway.telemetry.counts)

    series = "deepline_gateway_requests_total{method=GET,route=%s,status=404}"
    assert counts[series % "/api/v1/runs/{run_id}"] == 1
    assert counts[series % "none"] == 1
