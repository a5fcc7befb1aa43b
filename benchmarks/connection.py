"""How our Trio connection and pool compare with psycopg's own asyncio connection.

Both run `select 1` in autocommit mode against one embedded server, in turns within one process,
so that whatever else the machine does meets both. The figure is the median over the rounds of the
ratio of their rates: 1.0 means as many statements a second, and more is better for us.

    python benchmarks/connection.py [--rounds 15] [--seconds 0.25]

Two loads: one task on one connection, and 50 tasks that share 10 connections first come, first
served (asyncio: a queue of connections; ours: the pool, with all that it checks at every loan).
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
import trio

from deepline.adapters.postgres.connection import TrioConnection
from deepline.adapters.postgres.embedded import EmbeddedPostgres
from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings

TASKS = 50
CONNECTIONS = 10
TARGET = 0.85
STATEMENT = "select 1"

Load = Callable[[str, float], float]


def asyncio_sequential(dsn: str, seconds: float) -> float:
    """Statements a second of one asyncio task on one connection."""

    async def load() -> float:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            statements, end = 0, time.perf_counter() + seconds
            while time.perf_counter() < end:
                await (await connection.execute(STATEMENT)).fetchone()
                statements += 1
        return statements / seconds

    return asyncio.run(load())


def trio_sequential(dsn: str, seconds: float) -> float:
    """Statements a second of one Trio task on one connection."""

    async def load() -> float:
        connection = await TrioConnection.connect(dsn, autocommit=True)
        async with connection:
            statements, end = 0, time.perf_counter() + seconds
            while time.perf_counter() < end:
                await (await connection.execute(STATEMENT)).fetchone()
                statements += 1
        return statements / seconds

    return trio.run(load)


def asyncio_shared(dsn: str, seconds: float) -> float:
    """Statements a second of many asyncio tasks that share a queue of connections."""

    async def load() -> float:
        free: asyncio.Queue[psycopg.AsyncConnection] = asyncio.Queue()
        for _ in range(CONNECTIONS):
            free.put_nowait(await psycopg.AsyncConnection.connect(dsn, autocommit=True))
        statements, end = 0, time.perf_counter() + seconds

        async def borrow() -> None:
            nonlocal statements
            while time.perf_counter() < end:
                connection = await free.get()
                await (await connection.execute(STATEMENT)).fetchone()
                free.put_nowait(connection)
                statements += 1

        await asyncio.gather(*(borrow() for _ in range(TASKS)))
        while not free.empty():
            await free.get_nowait().close()
        return statements / seconds

    return asyncio.run(load())


def trio_shared(dsn: str, seconds: float) -> float:
    """Statements a second of many Trio tasks that share our pool."""

    async def load() -> float:
        settings = PoolSettings(size=CONNECTIONS)
        statements = 0
        async with ConnectionPool.to(ConnectionSettings(dsn=dsn), settings) as pool:
            await _fill(pool)
            end = time.perf_counter() + seconds

            async def borrow() -> None:
                nonlocal statements
                while time.perf_counter() < end:
                    async with pool.lease() as connection:
                        await (await connection.execute(STATEMENT)).fetchone()
                    statements += 1

            async with trio.open_nursery() as nursery:
                for _ in range(TASKS):
                    nursery.start_soon(borrow)
        return statements / seconds

    return trio.run(load)


async def _fill(pool: ConnectionPool) -> None:
    """Open every connection before the clock runs, as the other side does."""
    all_lent = trio.Event()
    lent = 0

    async def hold() -> None:
        nonlocal lent
        async with pool.lease():
            lent += 1
            if lent == CONNECTIONS:
                all_lent.set()
            await all_lent.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(CONNECTIONS):
            nursery.start_soon(hold)


def compare(name: str, peer: Load, ours: Load, *, dsn: str, rounds: int, seconds: float) -> float:
    """Run both in turns; print and return the median ratio of their rates."""
    rates: list[tuple[float, float]] = []
    for number in range(rounds):
        # Who goes first alternates, so that neither always finds the machine warmed up.
        if number % 2:
            own = ours(dsn, seconds)
            rates.append((peer(dsn, seconds), own))
        else:
            theirs = peer(dsn, seconds)
            rates.append((theirs, ours(dsn, seconds)))
    ratios = [own / theirs for theirs, own in rates]
    ratio = statistics.median(ratios)
    print(
        f"{name:<28} ratio {ratio:.2f} (rounds {min(ratios):.2f} to {max(ratios):.2f}), "
        f"asyncio {statistics.median(r for r, _ in rates):,.0f}/s, "
        f"ours {statistics.median(r for _, r in rates):,.0f}/s"
    )
    return ratio


def main() -> None:
    """Start a server, run both comparisons and say whether the target holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.25, help="of each load in each round")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="deepline-benchmark-") as directory:
        Path(directory).chmod(0o755)  # as root the server runs under another account
        server = EmbeddedPostgres(Path(directory, "postgres"), settings={"fsync": "off"})
        trio.run(server.start)
        try:
            run = partial(compare, dsn=server.dsn(), rounds=chosen.rounds, seconds=chosen.seconds)
            ratios = [
                run("one task, one connection", asyncio_sequential, trio_sequential),
                run(f"{TASKS} tasks on {CONNECTIONS} connections", asyncio_shared, trio_shared),
            ]
        finally:
            trio.run(server.stop)
    print(f"target {TARGET}: {'held' if min(ratios) >= TARGET else 'missed'}")


if __name__ == "__main__":
    main()
