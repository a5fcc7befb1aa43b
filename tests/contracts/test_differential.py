"""The memory store and the store on Postgres answer random scripts alike (TRIO 4.4).

A script stays short, because the store on Postgres lives in real time: what is due a few seconds
later must not come due by the script's own slowness. So there are many of them.
"""

import pytest

from deepline.testing import play, write_script
from tests.contracts.memory_stores import memory_stores
from tests.contracts.postgres_stores import empty, postgres_stores

pytestmark = pytest.mark.postgres

STEPS = 150
SCRIPTS = 136
"""Together more than twenty thousand operations."""


@pytest.mark.parametrize("part", range(4))
async def test_both_stores_answer_alike(part: int, migrated_database: str) -> None:
    """Step by step both stores give the same answer, script after script in one database."""
    for seed in range(part, SCRIPTS, 4):
        script = write_script(seed, length=STEPS)
        expected = await play(memory_stores(), script)
        empty(migrated_database)

        async with postgres_stores(migrated_database) as stores:
            told = await play(stores, script)

        assert list(told) == list(expected), f"script {seed}"
