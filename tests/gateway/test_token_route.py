"""The token route: a proof of a live attempt in, a token for that attempt out (C16, Q36, Q41)."""

import random
from collections.abc import Callable
from datetime import timedelta

import attrs
import pytest

from deepline.core.model.json_value import Json
from deepline.core.model.result import Failed
from deepline.gateway import GatewayPorts
from deepline.gateway.executor_tokens import ExecutorTokenIssuer, RunnerIdentity
from deepline.ports.errors import CapacityExceeded, Unavailable
from tests.gateway.deployment import KEYS, Options, deployed, internal, key_of

PATH = "/api/internal/runtime/attempt-executor-token"


async def test_a_live_attempt_gets_a_token_for_itself_alone() -> None:
    """The token names the run, the attempt and the organisation that the store knows."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        answer = await gateway.mint(fresh)
        verifier = ExecutorTokenIssuer(
            KEYS, gateway.settings.terms, gateway.clock, random.Random(0)
        )
        identity = verifier.verify(answer.json()["executorToken"])

    assert identity == RunnerIdentity(key=key_of(fresh), org_id=fresh.launch.org_id)
    assert isinstance(answer.json()["expiresAtMs"], int)


@pytest.mark.parametrize(
    "token", [pytest.param("", id="none"), pytest.param("internal-token-of-testz", id="other")]
)
async def test_only_workers_may_ask(token: str) -> None:
    """Without the internal token nothing is looked up."""
    async with deployed() as gateway:
        answer = await gateway.client.post(PATH, json={}, headers=internal(token))

    assert answer.status_code == 401


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"leaseToken": "another"}, id="other-lease"),
        pytest.param({"attempt": 2}, id="other-attempt"),
        pytest.param({"runId": "run_unknown"}, id="unknown-run"),
    ],
)
async def test_a_fence_that_does_not_hold_is_a_conflict(changes: dict[str, Json]) -> None:
    """The wrong lease, attempt or run gets no token, and is told to give up."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        answer = await gateway.mint(fresh, **changes)

    assert answer.status_code == 409
    assert answer.json()["code"] == "attempt_not_live"


async def test_an_ended_attempt_gets_no_token() -> None:
    """A run that ended by another hand takes its attempt's right to tokens with it."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        await gateway.end(fresh, Failed(error="PLAY_FAILED: broken"))
        answer = await gateway.mint(fresh)

    assert answer.status_code == 409


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"runId": ""}, id="blank-run"),
        pytest.param({"attempt": "1"}, id="attempt-is-text"),
        pytest.param({"attempt": 0}, id="attempt-zero"),
        pytest.param({"leaseToken": None}, id="no-lease"),
    ],
)
async def test_a_malformed_proof_is_named(changes: dict[str, Json]) -> None:
    """What is wrong with the body is said with the field's name."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        answer = await gateway.mint(fresh, **changes)

    assert answer.status_code == 422
    assert next(iter(changes)) in answer.json()["detail"]


async def test_no_room_is_coded_so_that_a_worker_defers() -> None:
    """Capacity is told apart from an outage by its code, and says when to come again (Q36)."""

    class Full:
        async def is_live(self, _: object) -> bool:
            raise CapacityExceeded("pool full", timedelta(milliseconds=1_500), "pool")

    async with deployed(Options(ports=with_attempts(Full()))) as gateway:
        answer = await gateway.client.post(PATH, json=PROOF, headers=internal())

    assert answer.status_code == 503
    assert answer.json()["code"] == "RUNTIME_SCHEDULER_CAPACITY"
    assert answer.json()["retryAfterMs"] == 1_500
    assert answer.headers["retry-after"] == "2"


async def test_an_unreachable_store_is_an_outage_that_can_be_waited_out() -> None:
    """A 503 without the capacity code lets the worker defer the attempt (C17)."""

    class Away:
        async def is_live(self, _: object) -> bool:
            raise Unavailable("connection refused")

    async with deployed(Options(ports=with_attempts(Away()))) as gateway:
        answer = await gateway.client.post(PATH, json=PROOF, headers=internal())

    assert answer.status_code == 503
    assert answer.json()["code"] == "store_unavailable"
    assert answer.json()["error"] == answer.json()["detail"]


async def test_no_secret_of_the_exchange_is_logged() -> None:
    """Neither the token, nor the lease token, nor the internal token is in any log (I46)."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        token = (await gateway.mint(fresh)).json()["executorToken"]
        await gateway.mint(fresh, leaseToken="a-wrong-lease-token")
        logged = gateway.logged()

    for secret in (
        token,
        fresh.attempt.ref.lease_token.value,
        "a-wrong-lease-token",
        "internal-token",
    ):
        assert secret not in logged


PROOF = {"runId": "run_1", "attempt": 1, "leaseToken": "lease"}


def with_attempts(attempts: object) -> Callable[[GatewayPorts], GatewayPorts]:
    """Ports whose attempts are others."""

    def change(ports: GatewayPorts) -> GatewayPorts:
        return attrs.evolve(ports, attempts=attempts)  # type: ignore[arg-type]

    return change
