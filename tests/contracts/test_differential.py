"""The memory store and the store on Postgres answer random scripts alike (TRIO 4.4)."""

import pytest

from deepline.testing import play, write_script
from tests.contracts.memory_stores import memory_stores
from tests.contracts.postgres_stores import postgres_stores

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("seed", range(12))
async def test_both_stores_answer_alike(seed: int, migrated_database: str) -> None:
    """Step by step both stores give the same answer."""
    script = write_script(seed, length=150)
    expected = await play(memory_stores(), script)

    async with postgres_stores(migrated_database) as stores:
        told = await play(stores, script)

    assert list(told) == list(expected)
