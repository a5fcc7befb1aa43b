"""The store under test, on a fresh database."""

from collections.abc import AsyncIterator

import pytest

from tests.support.store import StoreBench, store_bench


@pytest.fixture
async def bench(migrated_database: str) -> AsyncIterator[StoreBench]:
    """A store on a database of the test's own."""
    async with store_bench(migrated_database) as opened:
        yield opened
