"""Means to let two users of one database meet where a test wants them to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import psycopg
import trio
from psycopg import sql

from deepline.adapters.postgres.opening import open_connection
from deepline.adapters.postgres.settings import ConnectionSettings
from tests.support.store import StoreBench

Session: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]

_WAITING = """
    select count(*) from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'
"""


@asynccontextmanager
async def transaction(bench: StoreBench) -> AsyncIterator[Session]:
    """A transaction of somebody else's, committed when the block ends."""
    connection = await open_connection(ConnectionSettings(dsn=bench.dsn))
    try:
        async with connection.transaction():
            yield connection
    finally:
        with trio.move_on_after(5, shield=True):
            await connection.close()


@asynccontextmanager
async def listener(bench: StoreBench, channel: str) -> AsyncIterator[Session]:
    """A session that listens."""
    connection = await open_connection(ConnectionSettings(dsn=bench.dsn))
    try:
        await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        yield connection
    finally:
        with trio.move_on_after(5, shield=True):
            await connection.close()


async def until_waiting(bench: StoreBench, sessions: int = 1) -> None:
    """Wait until so many sessions of the database wait for a lock."""
    with trio.fail_after(20):
        while True:
            if await bench.row(_WAITING) >= sessions:
                return
            await trio.sleep(0.005)
