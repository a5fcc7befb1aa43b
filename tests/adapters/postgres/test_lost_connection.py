"""Servers and networks that go away, and what the caller may believe afterwards."""

import psycopg
import pytest
import trio

from deepline.adapters.postgres.connection import TrioConnection
from deepline.adapters.postgres.transaction import CommitOutcomeUnknown
from tests.support.statements import scalar, until_running
from tests.support.tcp_proxy import FaultyProxy

SLOW_COMMIT = """
    create function dawdle() returns trigger language plpgsql as
        $$ begin perform pg_sleep(69); return null; end $$;
    create constraint trigger dawdles after insert on t
        deferrable initially deferred for each row execute function dawdle();
"""


@pytest.fixture
async def observer(observer: TrioConnection) -> TrioConnection:
    """A second connection, and a table to write to."""
    await observer.execute("create table t (x int)")
    return observer


async def rows(observer: TrioConnection) -> int:
    """How many rows the table has."""
    return int(await scalar(observer, "select count(*) from t"))


async def terminate(observer: TrioConnection, text: str) -> None:
    """End the session that runs such a statement, once it does."""
    await until_running(observer, text)
    await observer.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where query like %s"
        " and pid <> pg_backend_pid()",
        (f"%{text}%",),
    )


async def test_killed_under_a_statement(
    connection: TrioConnection, observer: TrioConnection
) -> None:
    """A session that the server ends is closed, and its autocommitted statement in doubt."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(terminate, observer, "pg_sleep(70)")
        with pytest.raises(psycopg.errors.AdminShutdown):
            await connection.execute("select pg_sleep(70)")

    assert connection.closed
    assert connection.outcome_in_doubt


async def test_killed_inside_a_transaction(
    connection: TrioConnection, observer: TrioConnection
) -> None:
    """Before COMMIT is sent there is no doubt: nothing happened."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(terminate, observer, "pg_sleep(71)")
        with pytest.raises(psycopg.errors.AdminShutdown):  # noqa: PT012, the block is tested
            async with connection.transaction():
                await connection.execute("insert into t values (1)")
                await connection.execute("select pg_sleep(71)")

    assert not connection.outcome_in_doubt
    assert await rows(observer) == 0


async def test_lost_before_commit_with_the_error_swallowed(
    connection: TrioConnection, observer: TrioConnection
) -> None:
    """A block that ignores the loss of its connection is not reported as committed."""
    with pytest.raises(psycopg.OperationalError, match="before COMMIT"):  # noqa: PT012, the block is tested
        async with connection.transaction():
            await connection.execute("insert into t values (1)")
            connection.give_up()

    assert await rows(observer) == 0


async def test_killed_during_commit(connection: TrioConnection, observer: TrioConnection) -> None:
    """A session that is ended while it commits leaves the outcome unknown."""
    await observer.execute(SLOW_COMMIT)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(terminate, observer, "COMMIT")
        with pytest.raises(CommitOutcomeUnknown):
            async with connection.transaction():
                await connection.execute("insert into t values (1)")

    assert connection.closed


async def test_refused_commit(connection: TrioConnection, observer: TrioConnection) -> None:
    """A COMMIT that the server refuses is an answer: it did not happen."""
    await observer.execute("alter table t add primary key (x) deferrable initially deferred")
    with pytest.raises(psycopg.errors.UniqueViolation):
        async with connection.transaction():
            await connection.execute("insert into t values (1), (1)")

    assert not connection.closed
    assert await rows(observer) == 0


async def test_network_cut_during_commit(
    proxy: FaultyProxy, remote: TrioConnection, observer: TrioConnection
) -> None:
    """A connection that is cut once COMMIT was sent leaves the outcome unknown."""
    proxy.when_sent(b"COMMIT", proxy.cut)
    with trio.fail_after(20), pytest.raises(CommitOutcomeUnknown):
        async with remote.transaction():
            await remote.execute("insert into t values (1)")

    assert remote.closed
    assert await rows(observer) in {0, 1}


async def test_network_stalls_during_commit(
    proxy: FaultyProxy, remote: TrioConnection, observer: TrioConnection
) -> None:
    """A caller who is cancelled while COMMIT gets no answer is told so, and it did happen here."""
    proxy.when_sent(b"COMMIT", proxy.stall_answers)
    with trio.fail_after(20), trio.move_on_after(0.1), pytest.raises(CommitOutcomeUnknown):
        async with remote.transaction():
            await remote.execute("insert into t values (1)")

    assert remote.closed
    assert await rows(observer) == 1


async def test_network_stalls_during_a_pipelined_commit(
    proxy: FaultyProxy, remote: TrioConnection, observer: TrioConnection
) -> None:
    """The same holds for a COMMIT in a pipeline."""
    proxy.when_sent(b"COMMIT", proxy.stall_answers)
    with trio.fail_after(20), trio.move_on_after(0.1), pytest.raises(CommitOutcomeUnknown):
        async with remote.pipeline(), remote.transaction():
            await remote.execute("insert into t values (1)")

    assert remote.closed
    assert await rows(observer) == 1


async def test_network_stalls_during_rollback(
    proxy: FaultyProxy, remote: TrioConnection, observer: TrioConnection
) -> None:
    """Who rolls back because of an error gets that error, with the connection closed."""
    with trio.fail_after(20), trio.move_on_after(0.2), pytest.raises(ZeroDivisionError):  # noqa: PT012, the block is tested
        async with remote.transaction():
            await remote.execute("insert into t values (1)")
            proxy.stall()
            raise ZeroDivisionError

    assert await rows(observer) == 0


async def test_silent_server(proxy: FaultyProxy, remote: TrioConnection) -> None:
    """A cancelled statement to a server that fell silent costs the grace and the connection."""
    proxy.stall()
    with trio.fail_after(20), trio.move_on_after(0.05) as scope:
        await remote.execute("select 2")

    assert scope.cancelled_caught
    assert remote.closed


async def test_silent_server_in_a_pipeline(proxy: FaultyProxy, remote: TrioConnection) -> None:
    """So does a pipeline."""
    with trio.fail_after(20), trio.move_on_after(0.5) as scope:
        async with remote.pipeline():
            await remote.execute("select 1")
            proxy.stall()
            await trio.sleep_forever()

    assert scope.cancelled_caught
    assert remote.closed


async def test_silent_server_for_a_copy(
    proxy: FaultyProxy, remote: TrioConnection, observer: TrioConnection
) -> None:
    """So does a COPY."""
    with trio.fail_after(20), trio.move_on_after(0.5) as scope:
        async with remote.cursor().copy("copy t from stdin") as copy:
            await copy.write_row((1,))
            proxy.stall()
            await trio.sleep_forever()

    assert scope.cancelled_caught
    assert remote.closed


async def test_network_cut_under_a_statement(proxy: FaultyProxy, remote: TrioConnection) -> None:
    """A reset connection is an error of the statement that ran."""
    proxy.when_sent(b"pg_sleep", proxy.cut)
    with trio.fail_after(20), pytest.raises(psycopg.OperationalError):
        await remote.execute("select pg_sleep(72)")

    assert remote.closed


async def test_many_connections_lost_on_the_same_descriptor(
    proxy: FaultyProxy, observer: TrioConnection
) -> None:
    """Descriptors that are used again after a loss wait for the right socket."""
    for _ in range(30):
        connection = await TrioConnection.connect(proxy.dsn, autocommit=True)
        assert await scalar(connection, "select 1") == 1
        proxy.when_sent(b"select 2", proxy.cut)
        with trio.fail_after(20), pytest.raises(psycopg.OperationalError):
            await connection.execute("select 2")
        await connection.close()
