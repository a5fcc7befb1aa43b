"""How our Trio connection and pool compare with psycopg's own asyncio connection.

Both run `select 1` in autocommit mode against one embedded server, in turns within one process,
so that whatever else the machine does meets both; many short turns, so that it meets them alike.
The figures are medians over the rounds of the ratio of their rates, by the clock and by our own
processor time: 1.0 means as many statements a second, and more is better for us. The second is
the one to trust on a machine with other work to do.

    python benchmarks/connection.py [--rounds 41] [--seconds 0.1]

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

import attrs
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


@attrs.frozen
class Rate:
    """Statements a second, by the clock and by the processor time of this process."""

    clock: float
    processor: float


class Watch:
    """Runs while a load does."""

    def __init__(self, seconds: float) -> None:
        self._began_clock = time.perf_counter()
        self._began_processor = time.process_time()
        self._end = self._began_clock + seconds

    def runs(self) -> bool:
        """Whether the time is not over yet."""
        return time.perf_counter() < self._end

    def rate(self, statements: int) -> Rate:
        """What so many statements make."""
        return Rate(
            clock=statements / (time.perf_counter() - self._began_clock),
            processor=statements / (time.process_time() - self._began_processor),
        )


Load = Callable[[str, float], Rate]


def asyncio_sequential(dsn: str, seconds: float) -> Rate:
    """Rate of one asyncio task on one connection."""

    async def load() -> Rate:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            statements, watch = 0, Watch(seconds)
            while watch.runs():
                await (await connection.execute(STATEMENT)).fetchone()
                statements += 1
            return watch.rate(statements)

    return asyncio.run(load())


def trio_sequential(dsn: str, seconds: float) -> Rate:
    """Rate of one Trio task on one connection."""

    async def load() -> Rate:
        connection = await TrioConnection.connect(dsn, autocommit=True)
        async with connection:
            statements, watch = 0, Watch(seconds)
            while watch.runs():
                await (await connection.execute(STATEMENT)).fetchone()
                statements += 1
            return watch.rate(statements)

    return trio.run(load)


def asyncio_shared(dsn: str, seconds: float) -> Rate:
    """Rate of many asyncio tasks that share a queue of connections."""

    async def load() -> Rate:
        free: asyncio.Queue[psycopg.AsyncConnection] = asyncio.Queue()
        for _ in range(CONNECTIONS):
            free.put_nowait(await psycopg.AsyncConnection.connect(dsn, autocommit=True))
        statements, watch = 0, Watch(seconds)

        async def borrow() -> None:
            nonlocal statements
            while watch.runs():
                connection = await free.get()
                await (await connection.execute(STATEMENT)).fetchone()
                free.put_nowait(connection)
                statements += 1

        await asyncio.gather(*(borrow() for _ in range(TASKS)))
        rate = watch.rate(statements)
        while not free.empty():
            await free.get_nowait().close()
        return rate

    return asyncio.run(load())


def trio_shared(dsn: str, seconds: float) -> Rate:
    """Rate of many Trio tasks that share our pool."""

    async def load() -> Rate:
        settings = PoolSettings(size=CONNECTIONS)
        statements = 0
        async with ConnectionPool.to(ConnectionSettings(dsn=dsn), settings) as pool:
            await _fill(pool)
            watch = Watch(seconds)

            async def borrow() -> None:
                nonlocal statements
                while watch.runs():
                    async with pool.lease() as connection:
                        await (await connection.execute(STATEMENT)).fetchone()
                    statements += 1

            async with trio.open_nursery() as nursery:
                for _ in range(TASKS):
                    nursery.start_soon(borrow)
            return watch.rate(statements)

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
    """Run both in turns and print the ratios. Returns the median ratio by the clock."""
    pairs: list[tuple[Rate, Rate]] = []
    for number in range(rounds):
        # Who goes first alternates, so that neither always finds the machine warmed up.
        if number % 2:
            own = ours(dsn, seconds)
            pairs.append((peer(dsn, seconds), own))
        else:
            theirs = peer(dsn, seconds)
            pairs.append((theirs, ours(dsn, seconds)))
    clock = statistics.median(own.clock / theirs.clock for theirs, own in pairs)
    processor = statistics.median(own.processor / theirs.processor for theirs, own in pairs)
    print(
        f"{name:<28} ratio {clock:.2f} by the clock, {processor:.2f} by processor time; "
        f"asyncio {statistics.median(theirs.clock for theirs, _ in pairs):,.0f}/s, "
        f"ours {statistics.median(own.clock for _, own in pairs):,.0f}/s"
    )
    return clock


def main() -> None:
    """Start a server, run both comparisons and say whether the target holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each load in each round")
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
