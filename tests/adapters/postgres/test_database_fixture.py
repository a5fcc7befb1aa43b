"""The fixtures that hand out databases."""

import psycopg
import pytest

from tests.support.postgres import DatabaseServer, Template


def test_a_database_is_empty(database: str) -> None:
    """Each test gets a database that no other test has touched."""
    with psycopg.connect(database) as connection:
        connection.execute("create table left_behind (id int)")
        tables = connection.execute(
            "select count(*) from pg_tables where schemaname = 'public'"
        ).fetchone()

    assert tables == (1,)


test_a_second_database_is_empty = test_a_database_is_empty


def test_a_template_is_prepared_once(postgres: DatabaseServer) -> None:
    """What a template's preparation made is in every copy, and it is made once a session."""
    prepared: list[str] = []

    async def prepare(dsn: str) -> None:
        prepared.append(dsn)
        with psycopg.connect(dsn) as connection:
            connection.execute("create table made (id int)")

    template = Template("fixture_test", prepare)
    for _ in range(2):
        with postgres.database(template) as dsn, psycopg.connect(dsn) as connection:
            assert connection.execute("select count(*) from made").fetchone() == (0,)

    assert len(prepared) == 1


def test_a_template_that_fails_is_tried_again(postgres: DatabaseServer) -> None:
    """A preparation that raises leaves nothing, so that the next test sees its error as well."""

    async def prepare(dsn: str) -> None:
        raise RuntimeError("no schema today")

    template = Template("fixture_failure", prepare)
    for _ in range(2):
        with (
            pytest.raises(RuntimeError, match="no schema today"),
            postgres.database(template),
        ):
            pass
