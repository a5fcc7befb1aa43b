"""How the pool meets a server that is full or away."""

from datetime import timedelta
from functools import partial

import psycopg
import pytest
import trio

from deepline.adapters.postgres.connection import TrioConnection
from deepline.adapters.postgres.opening import open_connection
from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings
from deepline.ports.errors import CapacityExceeded, Unavailable, UnavailableKind
from tests.support.pools import backend, counts, pool_to

SECOND = timedelta(seconds=1)


async def test_a_full_server_is_a_capacity_error(database: str, observer: TrioConnection) -> None:
    """A server that has no room for the connection is full, not away: the breaker stays shut."""
    await observer.execute("drop role if exists narrow")
    await observer.execute("create role narrow login connection limit 0")
    dsn = psycopg.conninfo.make_conninfo(database, user="narrow")
    async with pool_to(dsn, failures_to_open=1) as pool:
        for _ in range(2):
            with pytest.raises(CapacityExceeded):
                await backend(pool)

        assert pool.counts() == counts(capacity_rejections=2)


class FlakyServer:
    """Connects to the database, or fails, as told; counts how often it was asked."""

    def __init__(self, dsn: str) -> None:
        self._connect = partial(open_connection, ConnectionSettings(dsn=dsn))
        self.away = True
        self.asked = 0
        self.hangs = False

    async def __call__(self) -> TrioConnection:
        self.asked += 1
        if self.hangs:
            await trio.sleep_forever()
        if self.away:
            raise psycopg.OperationalError("connection refused")
        return await self._connect()


async def test_the_breaker_opens_and_closes(database: str) -> None:
    """After failures in a row nobody tries, until one probe finds the server back."""
    server = FlakyServer(database)
    settings = PoolSettings(failures_to_open=2, open_for=timedelta(milliseconds=200))
    async with ConnectionPool(settings, server) as pool:
        for _ in range(2):
            with pytest.raises(Unavailable) as caught:
                await backend(pool)
            assert caught.value.kind is UnavailableKind.CONNECTION
        with pytest.raises(Unavailable) as caught:
            await backend(pool)

        assert caught.value.kind is UnavailableKind.CIRCUIT_OPEN
        assert server.asked == 2
        assert pool.counts() == counts(breaker_rejections=1)

        server.away = False
        await trio.sleep(0.25)
        await backend(pool)
        assert pool.counts().idle == 1


async def test_an_open_breaker_does_not_hold_back_what_works(database: str) -> None:
    """Connections that stand are lent while no new one can be made."""
    server = FlakyServer(database)
    server.away = False
    settings = PoolSettings(failures_to_open=1, open_for=60 * SECOND)
    async with ConnectionPool(settings, server) as pool:
        await backend(pool)
        server.away = True
        async with pool.lease() as connection:
            with pytest.raises(Unavailable):
                await backend(pool)
        async with pool.lease() as again:
            assert again is connection


async def test_a_cancelled_probe_makes_room_for_the_next(database: str) -> None:
    """A probe that is cancelled neither opens the breaker again nor blocks it."""
    server = FlakyServer(database)
    settings = PoolSettings(failures_to_open=1, open_for=timedelta(milliseconds=1))
    async with ConnectionPool(settings, server) as pool:
        with pytest.raises(Unavailable):
            await backend(pool)
        await trio.sleep(0.02)
        server.hangs = True
        with trio.move_on_after(0.02) as scope:
            await backend(pool)
        server.hangs = server.away = False
        await backend(pool)

    assert scope.cancelled_caught


async def test_connecting_is_bounded() -> None:
    """A server that accepts and never answers is a failure after the connect limit."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    settings = ConnectionSettings(
        dsn=f"host=127.0.0.1 port={port} user=nobody",
        connect_limit=timedelta(milliseconds=50),
    )
    with trio.fail_after(20), pytest.raises(Unavailable) as caught:
        async with ConnectionPool.to(settings) as pool:
            await backend(pool)
    await listeners[0].aclose()

    assert caught.value.kind is UnavailableKind.CONNECTION
