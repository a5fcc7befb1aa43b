"""API keys on Postgres: found by hash while they may be used."""

import pytest
import trio

from deepline.core.model.identity import OrgId
from deepline.ports.api_keys import ApiKey
from deepline.ports.errors import Refused
from tests.support.store import StoreBench, store_bench

ORG = OrgId("org")


async def add(bench: StoreBench, key_hash: str = "hash", org: str = "org") -> ApiKey:
    """Store a key."""
    return await bench.store.api_keys.add(key_hash, OrgId(org), label="laptop", operator=False)


async def test_a_key_is_found_by_its_hash(bench: StoreBench) -> None:
    """A stored key has an id of its own and says whose it is; another hash finds none."""
    key = await bench.store.api_keys.add("hash", ORG, label="laptop", operator=True)

    assert (key.org_id, key.label, key.operator, key.revoked_at) == ("org", "laptop", True, None)
    assert await bench.store.api_keys.find("hash") == key
    assert await bench.store.api_keys.find("other") is None
    assert (await add(bench, "other")).key_id != key.key_id


async def test_a_hash_is_stored_once(bench: StoreBench) -> None:
    """A key is not given to a second organisation, also when two ask at once."""
    answers: list[str] = []

    async def ask(user: StoreBench, org: str) -> None:
        try:
            answers.append((await add(user, org=org)).org_id)
        except Refused as refused:
            answers.append(refused.code)

    async with store_bench(bench.dsn) as other, trio.open_nursery() as nursery:
        nursery.start_soon(ask, bench, "one")
        nursery.start_soon(ask, other, "two")

    assert answers.count("key_exists") == 1
    [key] = await bench.store.api_keys.all(None)
    assert key.org_id in answers


async def test_a_revoked_key_is_found_no_more(bench: StoreBench) -> None:
    """Revoking takes effect at once and keeps its first time; the record stays in the list."""
    key = await add(bench)

    assert await bench.store.api_keys.revoke(key.key_id)

    assert await bench.store.api_keys.find("hash") is None
    [revoked] = await bench.store.api_keys.all(ORG)
    assert revoked.revoked_at is not None
    assert await bench.store.api_keys.revoke(key.key_id)
    assert await bench.store.api_keys.all(ORG) == [revoked]
    assert not await bench.store.api_keys.revoke("unknown")
    with pytest.raises(Refused):
        await add(bench)


async def test_keys_are_listed_by_organisation(bench: StoreBench) -> None:
    """An organisation sees its own keys, an operator all, oldest first."""
    for key_hash, org in (("a", "org"), ("b", "other"), ("c", "org")):
        await add(bench, key_hash, org)

    mine = await bench.store.api_keys.all(ORG)
    everyone = await bench.store.api_keys.all(None)

    assert [key.org_id for key in everyone] == ["org", "other", "org"]
    assert mine == [everyone[0], everyone[2]]
