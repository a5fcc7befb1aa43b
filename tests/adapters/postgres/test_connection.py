"""What psycopg does on asyncio, TrioConnection does on Trio."""

import socket
from contextlib import aclosing

import psycopg
import pytest
import trio
import trio.testing
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from deepline.adapters.postgres.connection import TrioConnection
from deepline.ports.errors import Refused
from tests.support.statements import scalar
from tests.support.tcp_proxy import FaultyProxy

IDLE = TransactionStatus.IDLE


async def test_parameters_and_results(connection: TrioConnection) -> None:
    """Values go in as parameters and come back as Python values."""
    cursor = await connection.execute("select %s::int + 1, %s::jsonb", (41, '{"a": 1}'))

    assert await cursor.fetchone() == (42, {"a": 1})


async def test_host_name(proxy: FaultyProxy) -> None:
    """A host name is resolved, and the first of its addresses that answers is used."""
    port = conninfo_to_dict(proxy.dsn)["port"]
    connection = await TrioConnection.connect(proxy.dsn, parameters={"host": "localhost"})

    assert connection.info.port == int(str(port))
    await connection.close()


async def test_connection_refused() -> None:
    """A server that isn't there is an OperationalError."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

        with pytest.raises(psycopg.OperationalError):
            await TrioConnection.connect(f"host=127.0.0.1 port={port} user=nobody")


async def test_missing_socket() -> None:
    """So is a socket that isn't there."""
    with pytest.raises(psycopg.OperationalError, match="connection to server"):
        await TrioConnection.connect("host=/nonexistent user=nobody")


@pytest.mark.parametrize(
    "dsn",
    [
        pytest.param("postgresql://u:hunter2@h:1@nowhere.invalid/d", id="unescaped-at-sign"),
        pytest.param("postgresql://u:x@hunter2@nowhere.invalid/d", id="password-as-host"),
        pytest.param("host=127.0.0.1 hunter2", id="no-equals-sign"),
        pytest.param("host=127.0.0.1 port=hunter2 user=u", id="password-as-port"),
    ],
)
async def test_no_password_in_errors(dsn: str) -> None:
    """Whatever is wrong with a connection string, no error repeats a piece of it."""
    with pytest.raises((psycopg.OperationalError, Refused)) as caught:
        await TrioConnection.connect(dsn)

    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


async def test_nested_transactions(connection: TrioConnection) -> None:
    """A transaction inside another is a savepoint: its failure undoes only itself."""
    await connection.execute("create table t (x int)")
    async with connection.transaction():
        await connection.execute("insert into t values (1)")
        with pytest.raises(ZeroDivisionError):  # noqa: PT012, the block is tested
            async with connection.transaction():
                await connection.execute("insert into t values (2)")
                raise ZeroDivisionError

    assert await scalar(connection, "select array_agg(x) from t") == [1]


async def test_isolation_level(connection: TrioConnection) -> None:
    """The isolation level of the connection holds for its transactions."""
    await connection.set_isolation_level(psycopg.IsolationLevel.SERIALIZABLE)
    async with connection.transaction():
        assert await scalar(connection, "show transaction_isolation") == "serializable"


async def test_failed_transaction_is_never_committed(connection: TrioConnection) -> None:
    """COMMIT after a swallowed error would be a silent ROLLBACK, so it is an error."""
    await connection.execute("create table t (x int)")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):  # noqa: PT012, the block is tested
        async with connection.transaction():
            await connection.execute("insert into t values (1)")
            with pytest.raises(psycopg.errors.DivisionByZero):
                await connection.execute("select 1/0")

    assert connection.pgconn.transaction_status == IDLE
    assert await scalar(connection, "select count(*) from t") == 0


async def test_forced_rollback(connection: TrioConnection) -> None:
    """A dry run leaves nothing, even with an error that was swallowed."""
    await connection.execute("create table t (x int)")
    async with connection.transaction(force_rollback=True):
        await connection.execute("insert into t values (1)")

    assert await scalar(connection, "select count(*) from t") == 0


async def test_pipeline(connection: TrioConnection) -> None:
    """Statements of a pipeline are sent without waiting, and each gets its own answer."""
    async with connection.pipeline() as pipeline:
        cursors = [await connection.execute("select %s::int", (i,)) for i in range(200)]
        await pipeline.sync()
        answers = [await cursor.fetchone() for cursor in cursors]

    assert answers == [(i,) for i in range(200)]
    assert connection.pgconn.transaction_status == IDLE


async def test_pipelined_transaction_commits(
    connection: TrioConnection, observer: TrioConnection
) -> None:
    """The transaction of a pipeline is committed when its block ends, not later."""
    await connection.execute("create table t (x int)")
    async with connection.pipeline():
        async with connection.transaction():
            await connection.execute("insert into t values (1)")

        assert await scalar(observer, "select count(*) from t") == 1


async def test_pipelined_transaction_that_fails(connection: TrioConnection) -> None:
    """An error inside a pipelined transaction rolls it back and shows as itself."""
    with pytest.raises(psycopg.errors.DivisionByZero):  # noqa: PT012, the block is tested
        async with connection.pipeline(), connection.transaction():
            await connection.execute("select 1")
            await connection.execute("select 1/0")
            await connection.execute("select 2")

    assert connection.pgconn.transaction_status == IDLE
    assert await scalar(connection, "select 7") == 7


async def test_executemany(connection: TrioConnection) -> None:
    """Many rows go in one pipeline of psycopg's own."""
    await connection.execute("create table t (x int)")
    await connection.cursor().executemany("insert into t values (%s)", [(i,) for i in range(2000)])

    assert await scalar(connection, "select count(*) from t") == 2000


async def test_copy_in_and_out(connection: TrioConnection) -> None:
    """COPY moves rows both ways, more of them than fit into a socket's buffer."""
    await connection.execute("create table t (x int, y text)")
    async with connection.cursor().copy("copy t from stdin") as copy:
        for i in range(20_000):
            await copy.write_row((i, "x" * 100))
    rows = 0
    async with connection.cursor().copy("copy t to stdout") as copy:
        async for _ in copy.rows():
            rows += 1

    assert rows == 20_000


async def test_server_cursor(connection: TrioConnection) -> None:
    """A named cursor fetches in portions."""
    async with connection.transaction(), connection.cursor("big") as cursor:
        cursor.itersize = 100
        await cursor.execute("select generate_series(1, 1000)")

        assert sum([row[0] async for row in cursor]) == 500_500


async def test_stream(connection: TrioConnection) -> None:
    """A stream yields rows while the server still makes them."""
    rows = connection.cursor().stream("select generate_series(1, 1000)")

    assert len([row async for row in rows]) == 1000


async def test_prepared_statements(connection: TrioConnection) -> None:
    """A statement that repeats is prepared on the server."""
    for i in range(10):
        await scalar(connection, "select %s::int + 5", i)

    assert await scalar(connection, "select count(*) from pg_prepared_statements") >= 1


async def test_notifications(connection: TrioConnection, observer: TrioConnection) -> None:
    """Notifications arrive in the order of their commits."""
    await connection.execute("listen changes")
    for payload in "abc":
        await observer.execute("select pg_notify('changes', %s)", (payload,))
    async with aclosing(connection.notifies(timeout=20, stop_after=3)) as notifications:
        heard = [notification.payload async for notification in notifications]

    assert heard == ["a", "b", "c"]


async def test_notifications_with_a_limit(connection: TrioConnection) -> None:
    """Listening for so long ends by itself, and a limit of nothing still looks once."""
    await connection.execute("listen changes")
    for limit in (0, 0.05):
        async with aclosing(connection.notifies(timeout=limit)) as notifications:
            assert [notification async for notification in notifications] == []

    assert await scalar(connection, "select 1") == 1


async def test_tasks_take_turns(connection: TrioConnection) -> None:
    """Several tasks may use one connection; each gets its own answer."""
    answers: list[int] = []

    async def ask(number: int) -> None:
        answers.append(await scalar(connection, "select %s::int from pg_sleep(0.001)", number))

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(ask, number)

    assert sorted(answers) == list(range(10))


async def test_closing_wakes_whoever_waits(
    connection: TrioConnection, observer: TrioConnection
) -> None:
    """A task that waits for an answer learns that the connection was closed."""
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(psycopg.OperationalError):
                await connection.execute("select pg_sleep(60)")

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        await connection.close()
