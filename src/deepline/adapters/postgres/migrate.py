"""Brings a database to the schema this code needs: ours, and the engine's (C59, ENGINE).

Migrations are numbered SQL files which only go forward; what was applied is remembered with its
checksum. The one that says how steps are planned is about all functions there are, and is applied
again behind any other. Everything happens in one transaction under an advisory lock, so that any
number of processes may start at once, and a failure leaves the database as it was.

The engine comes from the SQL that `absurdctl` carries, in the one version whose tables we know.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import resources

import absurdctl  # type: ignore[import-untyped]  # ships no types
import attrs
import psycopg
import trio
from psycopg import sql

from deepline.adapters.postgres.classify import port_errors
from deepline.adapters.postgres.connection import TrioConnection
from deepline.adapters.postgres.opening import open_connection
from deepline.adapters.postgres.settings import ConnectionSettings
from deepline.ports.errors import Refused

DEFAULT_SCHEMA = "deepline"
ENGINE_VERSION = "0.5.1"
_CLOSE_S = 5
_PLANS = "plans"
_LOCK = 0x6465_6570_6C69_6E65
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_FILE_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


class SchemaNewer(Refused):
    """The database was migrated by a newer release than this one; nothing was changed."""

    def __init__(self, what: str) -> None:
        super().__init__(
            "schema_newer", f"{what} is newer than this release knows; upgrade deepline-runtime"
        )


class SchemaChanged(Refused):
    """An applied migration differs from the file of the same number; nothing was changed."""

    def __init__(self, number: int) -> None:
        super().__init__(
            "schema_changed",
            f"migration {number} was applied with other content than this release has; "
            "use the release that applied it, or a database of its own",
        )


class SchemaBehind(Refused):
    """The database lacks migrations this release needs."""

    def __init__(self, schema: str) -> None:
        super().__init__(
            "schema_behind", f"schema {schema} is not up to date; run `deepline migrate`"
        )


@attrs.frozen(kw_only=True)
class Migration:
    """One numbered step. `text` still holds `{schema}` where the schema's name goes."""

    number: int
    name: str
    text: str

    @property
    def repeated(self) -> bool:
        """Whether it is applied again after others, since it is about what they made."""
        return self.name == _PLANS

    @property
    def checksum(self) -> str:
        """Hex SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@attrs.frozen(kw_only=True)
class SchemaState:
    """How a database stands: numbers of migrations applied, pending, and unknown here."""

    schema: str
    applied: Sequence[int]
    pending: Sequence[int]
    unknown: Sequence[int]
    engine_version: str | None

    def check(self) -> None:
        """Raise `SchemaNewer` or `SchemaBehind` unless this release can work on the database."""
        if self.unknown:
            raise SchemaNewer(f"schema {self.schema}")
        if self.engine_version is not None and _version(self.engine_version) > _version(
            ENGINE_VERSION
        ):
            raise SchemaNewer(f"the engine ({self.engine_version})")
        if self.pending or self.engine_version != ENGINE_VERSION:
            raise SchemaBehind(self.schema)


def packaged_migrations() -> Sequence[Migration]:
    """The migrations of this release, in order."""
    found = [
        Migration(number=int(named[1]), name=named[2], text=file.read_text("utf-8"))
        for file in resources.files(__package__).joinpath("migrations").iterdir()
        if (named := _FILE_NAME.fullmatch(file.name))
    ]
    found.sort(key=lambda migration: migration.number)
    numbers = [migration.number for migration in found]
    assert len(set(numbers)) == len(numbers), "two migrations have one number"
    return found


async def migrate(
    dsn: str,
    schema: str = DEFAULT_SCHEMA,
    *,
    migrations: Sequence[Migration] | None = None,
) -> Sequence[int]:
    """Install or upgrade, all or nothing; returns the numbers applied now.

    Raises `SchemaNewer` or `SchemaChanged` where going on could do harm, and the errors of C59.
    Cancelled, it leaves the database as it was.
    """
    _check_name(schema)
    wanted = packaged_migrations() if migrations is None else migrations
    with port_errors():
        async with _connected(dsn) as connection, connection.transaction():
            await connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            await _bring_engine(connection)
            return await _bring_schema(connection, schema, wanted)


async def schema_state(
    dsn: str,
    schema: str = DEFAULT_SCHEMA,
    *,
    migrations: Sequence[Migration] | None = None,
) -> SchemaState:
    """Read how the database stands, changing nothing. Raises the errors of C59."""
    _check_name(schema)
    wanted = packaged_migrations() if migrations is None else migrations
    with port_errors():
        async with _connected(dsn) as connection:
            applied = await _applied(connection, schema)
            engine_version = await _engine_version(connection)
    known = {migration.number for migration in wanted}
    return SchemaState(
        schema=schema,
        applied=sorted(applied),
        pending=sorted(known - applied.keys()),
        unknown=sorted(applied.keys() - known),
        engine_version=engine_version,
    )


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[TrioConnection]:
    # An upgrade may rewrite a large table or wait for the lock of another one.
    connection = await open_connection(
        ConnectionSettings(
            dsn=dsn,
            application_name="deepline migrate",
            statement_limit=None,
            idle_in_transaction_limit=None,
        )
    )
    try:
        yield connection
    finally:
        with trio.move_on_after(_CLOSE_S, shield=True):
            await connection.close()


async def _bring_engine(connection: TrioConnection) -> None:
    assert absurdctl.ABSURD_SCHEMA_TARGET_VERSION == ENGINE_VERSION
    present = await _engine_version(connection)
    if present is None:
        await connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
    elif _version(present) > _version(ENGINE_VERSION):
        raise SchemaNewer(f"the engine ({present})")
    elif present != ENGINE_VERSION:
        for step in absurdctl.resolve_migration_path(
            present, ENGINE_VERSION, absurdctl.discover_bundled_migrations()
        ):
            await connection.execute(step["sql"])
    assert await _engine_version(connection) == ENGINE_VERSION


async def _bring_schema(
    connection: TrioConnection, schema: str, wanted: Sequence[Migration]
) -> Sequence[int]:
    applied = await _applied(connection, schema)
    if applied.keys() - {migration.number for migration in wanted}:
        raise SchemaNewer(f"schema {schema}")
    await _make_register(connection, schema)
    done = []
    for migration in wanted:
        before = applied.get(migration.number)
        if before is None:
            await _apply(connection, schema, migration)
            done.append(migration.number)
        elif migration.repeated:
            if done or before != migration.checksum:
                await _apply(connection, schema, migration)
        elif before != migration.checksum:
            raise SchemaChanged(migration.number)
    return done


async def _apply(connection: TrioConnection, schema: str, migration: Migration) -> None:
    # Not str.format: the text is full of braces that are JSON's.
    await connection.execute(migration.text.replace("{schema}", schema))
    await connection.execute(
        sql.SQL(
            "insert into {} (number, name, checksum) values (%s, %s, %s)"
            " on conflict (number) do update set checksum = excluded.checksum"
        ).format(sql.Identifier(schema, "migrations")),
        (migration.number, migration.name, migration.checksum),
    )


async def _make_register(connection: TrioConnection, schema: str) -> None:
    await connection.execute(
        sql.SQL("create schema if not exists {}").format(sql.Identifier(schema))
    )
    await connection.execute(
        sql.SQL(
            "create table if not exists {} (number integer primary key, name text not null,"
            " checksum text not null, applied_at timestamptz not null default clock_timestamp())"
        ).format(sql.Identifier(schema, "migrations"))
    )


async def _applied(connection: TrioConnection, schema: str) -> dict[int, str]:
    register = sql.Identifier(schema, "migrations")
    if await _value(connection, "select to_regclass(%s)", f"{schema}.migrations") is None:
        return {}
    rows = await connection.execute(sql.SQL("select number, checksum from {}").format(register))
    return dict(await rows.fetchall())


async def _engine_version(connection: TrioConnection) -> str | None:
    function = "absurd.get_schema_version()"
    if await _value(connection, "select to_regprocedure(%s)", function) is None:
        return None
    version = await _value(connection, "select absurd.get_schema_version()")
    return str(version)


async def _value(connection: TrioConnection, query: str, *arguments: str) -> object:
    cursor: psycopg.AsyncCursor[tuple[object, ...]] = await connection.execute(query, arguments)
    row = await cursor.fetchone()
    assert row is not None
    return row[0]


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _check_name(schema: str) -> None:
    if not _SCHEMA_NAME.fullmatch(schema) or schema in {"absurd", "public"}:
        raise Refused(
            "schema_name",
            "a schema's name is lower-case letters, digits and underscores, not absurd or public",
        )
