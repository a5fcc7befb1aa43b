"""How many runs a second a worker carries from claim to end, every durable fact kept.

The reference is the async worker of the engine's own SDK with a task that does nothing. Ours is
the real worker over the store, with a backend that does nothing, and keeps far more: the run and
its attempt, the launch read, the terminal, the outbox fact, the reason, the engine's completion.

Both sides take turns in one process, on one server, each round on a fresh database with the same
number of runs waiting in it.
"""

from collections.abc import Iterator
from functools import partial

import psycopg
import trio

from benchmarks.databases import LANE, Databases, databases
from benchmarks.figures import Figure, Turns, at_least, take_turns
from benchmarks.noop_workers import (
    TASK,
    opened_store,
    run_our_worker,
    run_sdk_worker,
    submissions,
)

RUNS = 1_000
BATCH = 100


def figures(rounds: int) -> Iterator[Figure]:
    """The rates at both concurrencies."""
    with databases() as made:
        for concurrency in (10, 100):
            reference = partial(reference_rate, made, concurrency)
            turns = Turns(take_turns(rounds, reference, partial(our_rate, made, concurrency)))
            yield Figure(
                name=f"attempts at {concurrency} slots",
                value=turns.ratio,
                target=at_least(1.0),
                detail=turns.told("/s", "absurd-sdk"),
            )


def our_rate(made: Databases, slots: int) -> float:
    """Runs a second of our worker."""
    with made.ours() as dsn:
        trio.run(_submit, dsn)
        return RUNS / run_our_worker(dsn, slots=slots, runs=RUNS)


def reference_rate(made: Databases, concurrency: int) -> float:
    """Tasks a second of the SDK's worker."""
    with made.reference() as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "select absurd.spawn_task(%s, %s, jsonb_build_object('n', n), '{}')"
                " from generate_series(1, %s) n",
                (LANE, TASK, RUNS),
            )
        return RUNS / run_sdk_worker(dsn, concurrency=concurrency, tasks=RUNS)


async def _submit(dsn: str) -> None:
    async with opened_store(dsn) as store:
        for first in range(0, RUNS, BATCH):
            await store.admission.submit(submissions(first, BATCH), project_created=True)
