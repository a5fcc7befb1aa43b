"""Connections for the tests of this directory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from deepline.adapters.postgres.connection import TrioConnection
from tests.support.tcp_proxy import FaultyProxy, open_proxy


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[TrioConnection]:
    connection = await TrioConnection.connect(dsn, autocommit=True)
    try:
        yield connection
    finally:
        connection.give_up()


@pytest.fixture
async def connection(database: str) -> AsyncIterator[TrioConnection]:
    """A connection in autocommit mode."""
    async with _connected(database) as connection:
        yield connection


@pytest.fixture
async def observer(database: str) -> AsyncIterator[TrioConnection]:
    """A second connection to the same database."""
    async with _connected(database) as connection:
        yield connection


@pytest.fixture
async def proxy(database: str) -> AsyncIterator[FaultyProxy]:
    """A network to the database that can fail."""
    async with open_proxy(database) as proxy:
        yield proxy


@pytest.fixture
async def remote(proxy: FaultyProxy) -> AsyncIterator[TrioConnection]:
    """A connection through that network, with little patience for a silent server."""
    async with _connected(proxy.dsn) as connection:
        connection.grace_s = 0.3
        yield connection
