"""How many runs a second can be submitted: launch, run, created fact and engine task, one commit.

The reference is the engine's bare `absurd.spawn_task` in autocommit mode through the same pool,
with as many tasks and connections. It writes two rows where a submission writes five and a
notification.
"""

import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import count

import trio

from benchmarks.databases import LANE, Databases, databases
from benchmarks.figures import Figure, Turns, at_least, take_turns
from benchmarks.noop_workers import CONNECTIONS, TASK, opened_store, submission, submissions
from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings

SECONDS = 1.5
BATCH = 100
_SPAWN = "select * from absurd.spawn_task(%s, %s, %s::jsonb, %s::jsonb)"

Once = Callable[[int], Awaitable[object]]
"""Submits number so-and-so."""


def figures(rounds: int) -> Iterator[Figure]:
    """One by one against the engine's own spawn, and a batch against one by one."""
    with databases() as made:
        for tasks in (1, CONNECTIONS, 10):
            reference = partial(reference_rate, made, tasks)
            turns = Turns(take_turns(rounds, reference, partial(our_rate, made, tasks)))
            yield _figure(f"submit, {tasks} at a time", turns, "spawn_task", 0.6)
        one_by_one = partial(our_rate, made, 1)
        turns = Turns(take_turns(rounds, one_by_one, partial(batch_rate, made)))
        yield _figure(f"submit in batches of {BATCH}", turns, "one by one", 3.0)


def _figure(name: str, turns: Turns, reference: str, bound: float) -> Figure:
    return Figure(
        name=name, value=turns.ratio, target=at_least(bound), detail=turns.told("/s", reference)
    )


def reference_rate(made: Databases, tasks: int) -> float:
    """Tasks spawned a second."""

    async def load(dsn: str) -> float:
        settings = ConnectionSettings(dsn=dsn)
        async with ConnectionPool.to(settings, PoolSettings(size=tasks)) as pool:

            async def spawn(number: int) -> None:
                async with pool.lease(writes=True) as connection:
                    cursor = await connection.execute(
                        _SPAWN, (LANE, TASK, f'{{"n": {number}}}', "{}")
                    )
                    await cursor.fetchall()

            return await _rate(tasks, spawn)

    with made.reference() as dsn:
        return trio.run(load, dsn)


def our_rate(made: Databases, tasks: int) -> float:
    """Runs submitted a second, each in a call of its own."""

    async def load(dsn: str) -> float:
        async with opened_store(dsn, tasks) as store:

            async def submit(number: int) -> None:
                await store.admission.submit([submission(number)], project_created=True)

            return await _rate(tasks, submit)

    with made.ours() as dsn:
        return trio.run(load, dsn)


def batch_rate(made: Databases) -> float:
    """Runs submitted a second, a hundred in a call."""

    async def load(dsn: str) -> float:
        async with opened_store(dsn, 1) as store:

            async def submit(number: int) -> None:
                batch = submissions(number * BATCH, BATCH)
                await store.admission.submit(batch, project_created=True)

            return BATCH * await _rate(1, submit)

    with made.ours() as dsn:
        return trio.run(load, dsn)


async def _rate(tasks: int, once: Once) -> float:
    """How often a second so many tasks together do something, first done before the clock runs."""
    numbers = count()
    for _ in range(tasks):
        await once(next(numbers))
    done = 0
    begun = time.perf_counter()
    end = begun + SECONDS

    async def repeat() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await once(next(numbers))
            done += 1

    async with trio.open_nursery() as nursery:
        for _ in range(tasks):
            nursery.start_soon(repeat)
    return done / (time.perf_counter() - begun)
