"""The Postgres adapters as the contract kits ask for them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
from psycopg import sql

from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings
from deepline.adapters.postgres.store import open_store
from deepline.core.model.identity import RunId
from deepline.testing import Stores

_INSTANTS = """
    select c.table_schema, c.table_name, array_agg(c.column_name::text)
      from information_schema.columns c
      join information_schema.tables t using (table_schema, table_name)
     where c.table_schema in ('deepline', 'absurd') and t.table_type = 'BASE TABLE'
       and c.data_type = 'timestamp with time zone' and c.column_name <> 'heartbeat_at'
     group by 1, 2
"""
"""All stored instants but those of heartbeats, whose identity holds their time."""

_TABLES = """
    select table_schema, table_name from information_schema.tables
     where table_type = 'BASE TABLE' and table_schema in ('deepline', 'absurd')
       and table_name not in ('queues', 'store_mark') and table_name not like '%migrations%'
"""


@asynccontextmanager
async def postgres_stores(dsn: str) -> AsyncIterator[Stores]:
    """A store over a migrated database, in whose past everything can be moved."""
    settings = ConnectionSettings(dsn=dsn)

    instants: list[tuple[str, str, list[str]]] = []

    async def advance(length: timedelta) -> None:
        async with pool.lease() as connection:
            if not instants:
                instants.extend(await (await connection.execute(_INSTANTS)).fetchall())
            moves = [_move(*table, length) for table in instants]
            async with connection.transaction():
                await connection.execute(sql.SQL("; ").join(moves))

    async def lose_task(run_id: RunId) -> None:
        async with pool.lease() as connection:
            await _lose_task(connection, run_id)

    async def end_task(run_id: RunId, state: str) -> None:
        async with pool.lease() as connection:
            await _end_task(connection, run_id, state)

    async with (
        ConnectionPool.to(settings, PoolSettings(size=6)) as pool,
        open_store(pool, listening=settings) as store,
    ):
        yield Stores(
            admission=store.admission,
            api_keys=store.api_keys,
            attempts=store.attempts,
            capacity=store.capacity,
            census=store.census,
            cleanup=store.cleanup,
            crash_diagnostics=store.crash_diagnostics,
            dead_letters=store.dead_letters,
            duties=store.duties,
            engine=store.engine,
            lanes=store.lanes,
            launches=store.launches,
            liveness=store.liveness,
            liveness_work=store.liveness_work,
            outbox=store.outbox,
            receipts=store.receipts,
            recovery=store.recovery,
            run_events=store.run_events,
            runs=store.runs,
            sandboxes=store.sandboxes,
            secrets=store.secrets,
            sheets=store.sheets,
            signals=store.signals,
            terminals=store.terminals,
            usage=store.usage,
            advance=advance,
            lose_task=lose_task,
            end_task=end_task,
        )


def _move(schema: str, table: str, columns: list[str], length: timedelta) -> sql.Composed:
    changes = sql.SQL(", ").join(
        sql.SQL("{0} = {0} - {1}").format(sql.Identifier(column), sql.Literal(length))
        for column in columns
    )
    return sql.SQL("update {} set {}").format(sql.Identifier(schema, table), changes)


def empty(dsn: str) -> None:
    """Take every row away that a script left behind; the schema and the engine's queues stay."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        tables = connection.execute(_TABLES).fetchall()
        names = sql.SQL(", ").join(sql.Identifier(schema, table) for schema, table in tables)
        connection.execute(sql.SQL("truncate {}").format(names))


async def _lose_task(
    connection: psycopg.AsyncConnection[tuple[object, ...]], run_id: RunId
) -> None:
    """Take the engine's rows of a run away, as only damage can."""
    lane, task_id = await _task_of(connection, run_id)
    for table in (f"r_{lane}", f"t_{lane}"):
        await connection.execute(
            sql.SQL("delete from {} where task_id = %s").format(sql.Identifier("absurd", table)),
            [task_id],
        )


async def _end_task(
    connection: psycopg.AsyncConnection[tuple[object, ...]], run_id: RunId, state: str
) -> None:
    """End the engine's task beside the run, as only a bug or an operator can."""
    lane, task_id = await _task_of(connection, run_id)
    for table in (f"r_{lane}", f"t_{lane}"):
        await connection.execute(
            sql.SQL("update {} set state = %s where task_id = %s").format(
                sql.Identifier("absurd", table)
            ),
            [state, task_id],
        )


async def _task_of(
    connection: psycopg.AsyncConnection[tuple[object, ...]], run_id: RunId
) -> tuple[object, object]:
    [row] = await (
        await connection.execute(
            "select lane, task_id from deepline.runs where run_id = %s", [run_id]
        )
    ).fetchall()
    lane, task_id = row
    return lane, task_id
