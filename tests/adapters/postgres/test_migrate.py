"""Migrations: forward only, once, all or nothing, and never onto a newer database."""

import attrs
import psycopg
import pytest
import trio

from deepline.adapters.postgres.migrate import (
    ENGINE_VERSION,
    Migration,
    SchemaBehind,
    SchemaChanged,
    SchemaNewer,
    migrate,
    packaged_migrations,
    schema_state,
)
from deepline.ports.errors import Refused, Unavailable

KNOWN = [migration.number for migration in packaged_migrations()]


def tables(dsn: str, schema: str) -> int:
    """How many tables a schema has."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "select count(*) from pg_tables where schemaname = %s", (schema,)
        ).fetchone()
    assert row is not None
    return int(row[0])


async def test_an_empty_database_gets_schema_and_engine(database: str) -> None:
    """The first run applies everything, the next ones nothing."""
    assert await migrate(database) == KNOWN
    assert await migrate(database) == []

    state = await schema_state(database)
    assert (state.applied, state.pending, state.unknown) == (KNOWN, [], [])
    assert state.engine_version == ENGINE_VERSION
    state.check()


async def test_two_schemas_live_in_one_database(database: str) -> None:
    """The schema's name is a setting; both share the one engine."""
    await migrate(database)

    assert await migrate(database, "preview_7") == KNOWN

    assert tables(database, "preview_7") == tables(database, "deepline")


async def test_many_processes_may_start_at_once(database: str) -> None:
    """Whoever comes while another migrates waits for it and finds nothing to do."""
    done: list[int] = []

    async def start() -> None:
        done.extend(await migrate(database))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(start)

    assert done == KNOWN


async def test_a_newer_database_is_refused(database: str) -> None:
    """A release that does not know an applied migration does not touch the database."""
    await migrate(database)
    older = packaged_migrations()[:-1]

    with pytest.raises(SchemaNewer, match="upgrade deepline-runtime"):
        await migrate(database, migrations=older)
    state = await schema_state(database, migrations=older)
    assert state.unknown == [KNOWN[-1]]
    with pytest.raises(SchemaNewer):
        state.check()


async def test_a_newer_engine_is_refused(database: str) -> None:
    """An engine whose tables we do not know is left alone."""
    await migrate(database)
    with psycopg.connect(database) as connection:
        connection.execute(
            "create or replace function absurd.get_schema_version() returns text"
            " language sql as $$ select '9.0.0'::text $$"
        )

    with pytest.raises(SchemaNewer, match="engine"):
        await migrate(database)
    with pytest.raises(SchemaNewer):
        (await schema_state(database)).check()


async def test_a_changed_migration_is_refused(database: str) -> None:
    """What was applied must be what this release has under that number."""
    await migrate(database)
    first, *others = packaged_migrations()
    changed = attrs.evolve(first, text=first.text + "-- more")

    with pytest.raises(SchemaChanged, match="migration 1 "):
        await migrate(database, migrations=[changed, *others])


async def test_a_failing_migration_leaves_nothing_behind(database: str) -> None:
    """One failure takes back everything, the engine too."""
    broken = Migration(
        number=9000, name="broken", text="create table {schema}.t (n int); select 1/0"
    )

    with pytest.raises(psycopg.errors.DivisionByZero):
        await migrate(database, migrations=[*packaged_migrations(), broken])

    assert tables(database, "deepline") == tables(database, "absurd") == 0


async def test_an_upgrade_applies_what_is_missing(database: str) -> None:
    """Later migrations are applied on their own, in order."""
    await migrate(database)
    more = Migration(number=9000, name="more", text="create table {schema}.more (n integer)")
    wanted = [*packaged_migrations(), more]
    with pytest.raises(SchemaBehind, match="deepline migrate"):
        (await schema_state(database, migrations=wanted)).check()

    assert await migrate(database, migrations=wanted) == [9000]

    (await schema_state(database, migrations=wanted)).check()


async def test_an_upgrade_plans_what_it_brings(database: str) -> None:
    """How steps are planned holds for functions that came behind the migration that says so."""
    packaged = packaged_migrations()
    new = next(migration for migration in packaged if migration.name == "submit_one")
    before = [migration for migration in packaged if migration is not new]
    await migrate(database, migrations=before)

    assert await migrate(database) == [new.number]

    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "select proname, proconfig is not null from pg_proc where proname like 'submit%'"
            " and pronamespace = 'deepline'::regnamespace"
        ).fetchall()
    assert dict(rows) == {"submit": True, "submit_together": True, "submit_continued": True}


async def test_an_older_engine_is_upgraded(database: str) -> None:
    """An engine of an earlier version is brought to the one we know, its queues kept."""
    await migrate(database)
    with psycopg.connect(database) as connection:
        connection.execute("select absurd.create_queue('kept')")
        connection.execute(
            "create or replace function absurd.get_schema_version() returns text"
            " language sql as $$ select '0.5.0'::text $$"
        )
    with pytest.raises(SchemaBehind):
        (await schema_state(database)).check()

    await migrate(database)

    state = await schema_state(database)
    assert state.engine_version == ENGINE_VERSION
    with psycopg.connect(database) as connection:
        assert connection.execute("select queue_name from absurd.queues").fetchall() == [("kept",)]


async def test_reading_the_state_changes_nothing(database: str) -> None:
    """An empty database is told as such and stays empty."""
    state = await schema_state(database)

    assert (state.applied, state.pending, state.engine_version) == ([], KNOWN, None)
    assert tables(database, "deepline") == 0
    with pytest.raises(SchemaBehind):
        state.check()


@pytest.mark.parametrize("name", ["absurd", "public", "Upper", "a b", "x;y", "", "1st"])
async def test_a_schema_name_that_could_do_harm_is_refused(name: str) -> None:
    """The name goes into SQL, so it is a plain identifier, and not the engine's."""
    with pytest.raises(Refused):
        await migrate("postgresql:///nowhere", name)


async def test_an_unreachable_database_is_unavailable() -> None:
    """Without a connection the error says that waiting may help."""
    with pytest.raises(Unavailable):
        await schema_state("postgresql://nobody@127.0.0.1:1/none")
