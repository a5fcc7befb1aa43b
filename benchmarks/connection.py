"""How our Trio connection and pool compare with psycopg's own asyncio connection.

Both run `select 1` in autocommit mode against one embedded server, in turns within one process,
so that whatever else the machine does meets both; many short turns, so that it meets them alike.
The figures are medians over the rounds of the ratio of their rates, by the clock and by our own
processor time: 1.0 means as many statements a second, and more is better for us. The second is
the one to trust on a machine with other work to do.

Two loads: one task on one connection, and 50 tasks that share 10 connections first come, first
served (asyncio: a queue of connections; ours: the pool, with all that it checks at every loan).
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial

import attrs
import psycopg
import trio

from benchmarks.databases import databases
from benchmarks.figures import Figure, Turns, at_least, take_turns
from deepline.adapters.postgres.connection import TrioConnection
from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings

TASKS = 50
CONNECTIONS = 10
SECONDS = 0.1
TURNS = 8
"""In each round, since they are short."""
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


def figures(rounds: int) -> Iterator[Figure]:
    """Both loads, by the clock and by processor time."""
    with databases() as made, made.reference() as dsn:
        loads = (
            ("connection, one task", asyncio_sequential, trio_sequential),
            (f"connection, {TASKS} tasks", asyncio_shared, trio_shared),
        )
        for name, peer, ours in loads:
            reference = partial(peer, dsn, SECONDS)
            pairs = take_turns(TURNS * rounds, reference, partial(ours, dsn, SECONDS))
            clock = Turns([(theirs.clock, own.clock) for theirs, own in pairs])
            processor = Turns([(theirs.processor, own.processor) for theirs, own in pairs])
            yield Figure(
                name=name,
                value=clock.ratio,
                target=at_least(0.85),
                detail=clock.told("/s", "asyncio psycopg"),
            )
            yield Figure(
                name=f"{name}, by processor time",
                value=processor.ratio,
                detail=processor.told("/s of it", "asyncio psycopg"),
            )
