"""Statements prepared once a session: values, errors, cancellation, loss and poolers (C59)."""

import psycopg
import pytest
import trio

from deepline.adapters.postgres.connection import TrioConnection
from tests.support.statements import running, scalar, until_running

PREPARED = "select count(*) from pg_prepared_statements where name like 'step%'"


async def test_rows_come_as_texts(connection: TrioConnection) -> None:
    """The first column of each row, in order, null being none."""
    values = await connection.call(
        b"select x from unnest($1::text[]) with ordinality as u(x, n) order by n",
        ['{"Zoë ∑",NULL,""}'.encode()],
    )

    assert values == ["Zoë ∑".encode(), None, b""]
    assert await connection.call(b"select 1 where false", []) == []
    assert await connection.call(b"select $1::text is null", [None]) == [b"t"]


async def test_it_is_prepared_once(connection: TrioConnection) -> None:
    """Each text is prepared at its first call, and then run by its name."""
    for number in range(3):
        assert await connection.call(b"select $1::int + 1", [b"%d" % number]) == [
            b"%d" % (number + 1)
        ]
    await connection.call(b"select $1::int + 2", [b"1"])

    assert await scalar(connection, PREPARED) == 2


async def test_nothing_is_prepared_behind_a_pooler(connection: TrioConnection) -> None:
    """Sessions that are shared keep no statements."""
    connection.prepare_threshold = None

    assert await connection.call(b"select $1::int + 1", [b"1"]) == [b"2"]
    assert await scalar(connection, PREPARED) == 0


async def test_what_the_server_refuses_is_raised(connection: TrioConnection) -> None:
    """Refused while it is prepared or run, the error is of its SQLSTATE, the session as before."""
    with pytest.raises(psycopg.errors.UndefinedTable):
        await connection.call(b"select 1 from nowhere where $1::int = 1", [b"1"])
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        await connection.call(b"select $1::int", [b"one"])

    assert await connection.call(b"select $1::int", [b"1"]) == [b"1"]


async def test_a_cancelled_call_ends_on_the_server(
    connection: TrioConnection, observer: TrioConnection
) -> None:
    """The statement ends there too, and the connection serves the next."""
    with trio.fail_after(20), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                await until_running(observer, "pg_sleep($1::int)")
                scope.cancel()

            nursery.start_soon(cancel)
            await connection.call(b"select pg_sleep($1::int)", [b"63"])

    assert scope.cancelled_caught
    assert await running(observer, "pg_sleep($1::int)") == 0
    assert await connection.call(b"select 42", []) == [b"42"]


async def test_a_call_under_which_the_session_ends_is_in_doubt(
    connection: TrioConnection, observer: TrioConnection
) -> None:
    """It may have committed, as any statement outside of a transaction block."""

    async def terminate() -> None:
        await until_running(observer, "pg_sleep($1::real)")
        await observer.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where query like '%pg_sleep($1::real)%' and pid <> pg_backend_pid()"
        )

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(terminate)
            with pytest.raises(psycopg.errors.AdminShutdown):
                await connection.call(b"select pg_sleep($1::real)", [b"64"])

    assert connection.closed
    assert connection.outcome_in_doubt


async def test_a_closed_connection_says_so(connection: TrioConnection) -> None:
    """Nothing is sent."""
    connection.give_up()

    with pytest.raises(psycopg.OperationalError):
        await connection.call(b"select 1", [])
