"""Secrets of an organisation over HTTP: kept sealed, used by its runners, answered to nobody."""

import pytest

from deepline.core.model.identity import OrgId
from deepline.core.model.json_value import Json
from deepline.gateway import Sealer
from tests.gateway.deployment import ALICE, BOB, Options, bearer, deployed

RUNNER = "/api/v1/runner"
VALUE = "s3cr3t-value"


async def test_a_secret_goes_to_the_runner_that_names_it_and_nowhere_else() -> None:
    """What is kept is sealed; it is in no answer to people and in no log."""
    async with deployed() as gateway:
        client = gateway.client
        kept = await client.put(
            "/api/v1/secrets/CRM_KEY", json={"value": VALUE}, headers=bearer(ALICE)
        )
        listed = await client.get("/api/v1/secrets", headers=bearer(ALICE))
        fresh = await gateway.start(secretNames=["CRM_KEY"])
        launch = await client.get(f"{RUNNER}/launch", headers=await gateway.runner(fresh))
        shown = await client.get("/api/v1/runs/run_1", headers=bearer(ALICE))
        sealed = await gateway.store.secrets.sealed(OrgId("alice"), "CRM_KEY")
        logged = gateway.logged()

    assert kept.json()["name"] == "CRM_KEY"
    assert listed.json() == {"secrets": [kept.json()]}
    assert launch.json()["secrets"] == {"CRM_KEY": VALUE}
    assert sealed is not None
    assert VALUE.encode() not in sealed
    assert VALUE not in kept.text + listed.text + shown.text + logged


async def test_an_organisation_uses_its_own_secrets() -> None:
    """Another organisation neither sees nor uses a secret, nor changes it."""
    async with deployed() as gateway:
        client = gateway.client
        await client.put("/api/v1/secrets/KEY", json={"value": "mine"}, headers=bearer(ALICE))
        await client.put("/api/v1/secrets/KEY", json={"value": "theirs"}, headers=bearer(BOB))
        await client.put("/api/v1/secrets/BOBS", json={"value": "theirs"}, headers=bearer(BOB))
        removed = await client.delete("/api/v1/secrets/KEY", headers=bearer(BOB))
        gone = await client.delete("/api/v1/secrets/KEY", headers=bearer(BOB))
        fresh = await gateway.start(secretNames=["KEY", "BOBS"])
        headers = await gateway.runner(fresh)
        missing = await client.get(f"{RUNNER}/launch", headers=headers)
        listed = await client.get("/api/v1/secrets", headers=bearer(ALICE))

    assert (removed.json(), gone.json()) == ({"removed": True}, {"removed": False})
    assert missing.status_code == 422
    assert missing.json()["code"] == "secret_missing"
    assert "BOBS;" in missing.json()["detail"]
    assert [secret["name"] for secret in listed.json()["secrets"]] == ["KEY"]


async def test_a_kept_secret_counts_before_the_environments() -> None:
    """What an organisation keeps is its own; the environment answers for the rest."""
    environment = {"DEEPLINE_SECRET_KEY": "of-all", "DEEPLINE_SECRET_OTHER": "of-all"}
    async with deployed(Options(secrets=environment)) as gateway:
        await gateway.client.put(
            "/api/v1/secrets/KEY", json={"value": VALUE}, headers=bearer(ALICE)
        )
        fresh = await gateway.start(secretNames=["KEY", "OTHER"])
        launch = await gateway.client.get(f"{RUNNER}/launch", headers=await gateway.runner(fresh))

    assert launch.json()["secrets"] == {"KEY": VALUE, "OTHER": "of-all"}


@pytest.mark.parametrize(
    ("name", "document"),
    [
        pytest.param("lower", {"value": "x"}, id="name"),
        pytest.param("A" * 101, {"value": "x"}, id="long-name"),
        pytest.param("KEY", {}, id="no-value"),
        pytest.param("KEY", {"value": ""}, id="empty"),
        pytest.param("KEY", {"value": 7}, id="no-text"),
        pytest.param("KEY", {"value": "x" * 32_769}, id="too-long"),
    ],
)
async def test_what_cannot_be_a_secret(name: str, document: Json) -> None:
    """It is refused, and nothing is kept."""
    async with deployed() as gateway:
        answer = await gateway.client.put(
            f"/api/v1/secrets/{name}", json=document, headers=bearer(ALICE)
        )
        listed = await gateway.client.get("/api/v1/secrets", headers=bearer(ALICE))

    assert answer.status_code == 422
    assert listed.json() == {"secrets": []}


@pytest.mark.parametrize("method", [pytest.param("GET", id="list"), pytest.param("PUT", id="set")])
async def test_secrets_are_for_people_with_a_key(method: str) -> None:
    """Without an API key there is nothing to see or to set."""
    path = "/api/v1/secrets" if method == "GET" else "/api/v1/secrets/KEY"
    async with deployed() as gateway:
        answer = await gateway.client.request(method, path, headers=bearer("another"))

    assert answer.status_code == 401


async def test_a_gateway_without_a_key_keeps_nothing() -> None:
    """It says what is missing; secrets of the environment work as ever."""
    async with deployed(Options(sealer=None, secrets={"DEEPLINE_SECRET_ONE": "1234"})) as gateway:
        answer = await gateway.client.put(
            "/api/v1/secrets/KEY", json={"value": VALUE}, headers=bearer(ALICE)
        )
        fresh = await gateway.start(secretNames=["ONE"])
        launch = await gateway.client.get(f"{RUNNER}/launch", headers=await gateway.runner(fresh))

    assert (answer.status_code, answer.json()["code"]) == (422, "secrets_not_kept")
    assert "DEEPLINE_SECRETS_KEY" in answer.json()["detail"]
    assert launch.json()["secrets"] == {"ONE": "1234"}


async def test_a_secret_that_cannot_be_opened() -> None:
    """A key that was lost makes a clear failure that names the secret and not its value."""
    async with deployed() as gateway:
        sealed = Sealer([bytes(32)]).seal(OrgId("alice"), "KEY", VALUE)
        await gateway.store.secrets.put(OrgId("alice"), "KEY", sealed)
        fresh = await gateway.start(secretNames=["KEY"])
        launch = await gateway.client.get(f"{RUNNER}/launch", headers=await gateway.runner(fresh))

    assert (launch.status_code, launch.json()["code"]) == (422, "secret_unreadable")
    assert "deepline secrets set KEY" in launch.json()["detail"]
