"""After a cancellation the connection is ready for the next statement, or it is closed."""

from contextlib import aclosing

import trio
import trio.testing
from psycopg.pq import TransactionStatus

from deepline.adapters.postgres.connection import TrioConnection
from tests.support.statements import running, scalar, until_blocked, until_over, until_running

IDLE = TransactionStatus.IDLE

SLOW_COMMIT = """
    create table slow (x int);
    create function dawdle() returns trigger language plpgsql as
        $$ begin perform pg_sleep(0.4); return null; end $$;
    create constraint trigger dawdles after insert on slow
        deferrable initially deferred for each row execute function dawdle();
"""


async def assert_usable(connection: TrioConnection) -> None:
    """The connection is idle and its next answer belongs to its next question."""
    assert connection.pgconn.transaction_status == IDLE
    assert await scalar(connection, "select 42") == 42


async def test_while_connecting() -> None:
    """A server that accepts and never answers does not hold a cancelled connect."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    with trio.fail_after(20), trio.move_on_after(0.05) as scope:
        await TrioConnection.connect(f"host=127.0.0.1 port={port} user=nobody")
    await listeners[0].aclose()

    assert scope.cancelled_caught


async def test_before_a_statement_is_sent(connection: TrioConnection) -> None:
    """A task that is cancelled already sends nothing."""
    await connection.execute("create table t (x int)")
    with trio.CancelScope() as scope:
        scope.cancel()
        await connection.execute("insert into t values (1)")

    assert scope.cancelled_caught
    await assert_usable(connection)
    assert await scalar(connection, "select count(*) from t") == 0


async def test_while_a_statement_runs(connection: TrioConnection, observer: TrioConnection) -> None:
    """The statement ends on the server as well."""
    with trio.fail_after(20), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                await until_running(observer, "pg_sleep(61)")
                scope.cancel()

            nursery.start_soon(cancel)
            await connection.execute("select pg_sleep(61)")

    assert scope.cancelled_caught
    assert await running(observer, "pg_sleep(61)") == 0
    await assert_usable(connection)


async def test_while_blocked_on_a_lock(
    connection: TrioConnection, observer: TrioConnection
) -> None:
    """A statement that waits for a row lock is cancelled while it waits."""
    await connection.execute("create table t (x int); insert into t values (1)")
    async with observer.transaction():
        await observer.execute("select * from t for update")
        with trio.fail_after(20), trio.move_on_after(0.05) as scope:
            await connection.execute("update t set x = 2")

    assert scope.cancelled_caught
    await assert_usable(connection)
    assert await scalar(connection, "select x from t") == 1


async def test_when_the_statement_fails_by_itself(connection: TrioConnection) -> None:
    """A statement that ends with another error than the cancel's leaves a good connection."""
    await connection.execute(
        "create function stubborn() returns void language plpgsql as $$ begin"
        " perform pg_sleep(62); exception when query_canceled then perform 1/0; end $$"
    )
    with trio.fail_after(20), trio.move_on_after(0.05) as scope:
        await connection.execute("select stubborn()")

    assert scope.cancelled_caught
    await assert_usable(connection)


async def test_behind_a_pooler(connection: TrioConnection) -> None:
    """Where a cancel request may hit the session of somebody else, the connection is closed."""
    connection.survives_cancel = False
    with trio.fail_after(20), trio.move_on_after(0.05) as scope:
        await connection.execute("select pg_sleep(63)")

    assert scope.cancelled_caught
    assert connection.closed


async def test_while_waiting_for_another_task(
    connection: TrioConnection, observer: TrioConnection
) -> None:
    """Whoever waits for a turn on the connection leaves without a trace."""
    answers: list[int] = []

    async def ask() -> None:
        answers.append(await scalar(connection, "select 7 from pg_sleep(0.3)"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0.01) as scope:
            await connection.execute("select 8")

    assert scope.cancelled_caught
    assert answers == [7]
    await assert_usable(connection)


async def test_inside_a_transaction(connection: TrioConnection) -> None:
    """A cancelled statement rolls its transaction back."""
    await connection.execute("create table t (x int)")
    with trio.fail_after(20), trio.move_on_after(0.05) as scope:
        async with connection.transaction():
            await connection.execute("insert into t values (1)")
            await connection.execute("select pg_sleep(64)")

    assert scope.cancelled_caught
    await assert_usable(connection)
    assert await scalar(connection, "select count(*) from t") == 0


async def test_between_the_statements_of_a_transaction(connection: TrioConnection) -> None:
    """So does a cancellation while the transaction is open and nothing runs."""
    await connection.execute("create table t (x int)")
    with trio.fail_after(20), trio.move_on_after(0.05) as scope:
        async with connection.transaction():
            await connection.execute("insert into t values (1)")
            await trio.sleep_forever()

    assert scope.cancelled_caught
    await assert_usable(connection)
    assert await scalar(connection, "select count(*) from t") == 0


async def test_inside_a_savepoint(connection: TrioConnection) -> None:
    """A cancellation that ends at a savepoint leaves the transaction around it intact."""
    await connection.execute("create table t (x int)")
    async with connection.transaction():
        await connection.execute("insert into t values (1)")
        with trio.fail_after(20), trio.move_on_after(0.05) as scope:
            async with connection.transaction():
                await connection.execute("insert into t values (2)")
                await connection.execute("select pg_sleep(65)")

    assert scope.cancelled_caught
    assert await scalar(connection, "select array_agg(x) from t") == [1]


async def test_just_before_commit(connection: TrioConnection) -> None:
    """Up to the moment before COMMIT a cancellation means ROLLBACK."""
    await connection.execute("create table t (x int)")
    with trio.CancelScope() as scope:
        async with connection.transaction():
            await connection.execute("insert into t values (1)")
            scope.cancel()

    assert scope.cancelled_caught
    await assert_usable(connection)
    assert await scalar(connection, "select count(*) from t") == 0


async def test_during_commit(connection: TrioConnection) -> None:
    """A COMMIT that was sent is waited for; the cancellation shows at the next checkpoint."""
    await connection.execute(SLOW_COMMIT)
    reached = False
    with trio.CancelScope() as scope:
        async with connection.transaction():
            await connection.execute("insert into slow values (1)")
            scope.deadline = trio.current_time() + 0.1
        reached = True
        await trio.lowlevel.checkpoint()

    assert reached
    assert scope.cancelled_caught
    await assert_usable(connection)
    assert await scalar(connection, "select count(*) from slow") == 1


async def test_commit_that_takes_longer_than_the_grace(connection: TrioConnection) -> None:
    """The grace bounds a cancelled caller; nobody else's COMMIT is cut for being slow."""
    await connection.execute(SLOW_COMMIT)
    connection.grace_s = 0.1
    async with connection.transaction():
        await connection.execute("insert into slow values (1)")

    assert await scalar(connection, "select count(*) from slow") == 1


async def test_at_every_moment_of_a_transaction(connection: TrioConnection) -> None:
    """Wherever between BEGIN and COMMIT it comes, a transaction happened wholly or not at all."""
    await connection.execute("create table t (x int)")
    for step in range(60):
        with trio.move_on_after(step * 2e-5):
            async with connection.transaction():
                await connection.execute("insert into t values (%s)", (step,))
                await connection.execute("insert into t values (%s)", (step,))
        assert connection.pgconn.transaction_status == IDLE

    torn = await scalar(
        connection,
        "select count(*) from (select from t group by x having count(*) <> 2) as torn",
    )
    assert torn == 0


async def test_during_copy_in(connection: TrioConnection) -> None:
    """A COPY that was not finished leaves no row."""
    await connection.execute("create table t (x int)")
    with trio.fail_after(20), trio.move_on_after(0.05) as scope:
        async with connection.cursor().copy("copy t from stdin") as copy:
            await copy.write_row((1,))
            await trio.sleep_forever()

    assert scope.cancelled_caught
    await assert_usable(connection)
    assert await scalar(connection, "select count(*) from t") == 0


async def test_during_copy_in_against_a_full_socket(
    connection: TrioConnection, observer: TrioConnection
) -> None:
    """Neither does one that was cut while the server did not take its data."""
    await connection.execute("create table t (x int primary key, y text)")
    async with observer.transaction():
        # The server waits for this row to be decided, so it stops reading, and the buffers of the
        # socket fill up.
        await observer.execute("insert into t values (1)")
        with trio.fail_after(20), trio.CancelScope() as scope:
            async with (
                connection.cursor().copy("copy t from stdin") as copy,
                trio.open_nursery() as nursery,
            ):

                async def write() -> None:
                    for key in range(1, 1000):
                        await copy.write_row((key, "x" * 100_000))

                nursery.start_soon(write)
                await until_blocked(observer)
                await trio.testing.wait_all_tasks_blocked(0.05)
                scope.cancel()

    assert scope.cancelled_caught
    assert connection.closed or connection.pgconn.transaction_status == IDLE
    assert await scalar(observer, "select count(*) from t") == 1


async def test_during_copy_out(connection: TrioConnection) -> None:
    """A COPY of endless rows ends when its reader is cancelled."""
    statement = "copy (select generate_series(1, 50000000)) to stdout"
    with trio.fail_after(20), trio.move_on_after(0.1) as scope:
        async with connection.cursor().copy(statement) as copy:
            async for _ in copy.rows():
                pass

    assert scope.cancelled_caught
    assert connection.closed or connection.pgconn.transaction_status == IDLE


async def test_during_a_stream(connection: TrioConnection, observer: TrioConnection) -> None:
    """A stream that is left half read may leave its statement under way, and close ends it."""
    with trio.fail_after(20), trio.move_on_after(0.1) as scope:
        stream = connection.cursor().stream("select generate_series(1, 50000000) as streamed")
        async with aclosing(stream) as rows:  # type: ignore[type-var] # it is a generator
            async for _ in rows:
                await trio.lowlevel.checkpoint()
    await connection.cancel_safe()
    await connection.close()

    assert scope.cancelled_caught
    await until_over(observer, "as streamed")


async def test_inside_a_pipeline(connection: TrioConnection) -> None:
    """A pipeline that is cut is drained or the connection closed, within the grace."""
    with trio.fail_after(20), trio.move_on_after(0.05) as scope:
        async with connection.pipeline() as pipeline:
            await connection.execute("select 1")
            await connection.execute("select pg_sleep(66)")
            await pipeline.sync()

    assert scope.cancelled_caught
    await assert_usable(connection)


async def test_while_leaving_a_pipeline(connection: TrioConnection) -> None:
    """So is one that is cut while its end waits for the answers."""
    with trio.fail_after(20), trio.move_on_after(0.05) as scope:
        async with connection.pipeline():
            await connection.execute("select pg_sleep(67)")

    assert scope.cancelled_caught
    await assert_usable(connection)


async def test_while_listening(connection: TrioConnection) -> None:
    """A task that waits for notifications can be cancelled and the connection used again."""
    await connection.execute("listen changes")
    with trio.fail_after(20), trio.move_on_after(0.05) as scope:
        async with aclosing(connection.notifies()) as notifications:
            async for _ in notifications:
                pass

    assert scope.cancelled_caught
    await assert_usable(connection)


async def test_a_cancel_request_never_hits_the_next_statement(
    connection: TrioConnection,
) -> None:
    """Hundreds of cancellations at all sorts of moments, and not one stray."""
    cancelled = 0
    for round_number in range(300):
        with trio.move_on_after(0.0003 + round_number % 20 * 1e-4) as scope:
            await connection.execute("select pg_sleep(0.001)")
        cancelled += scope.cancelled_caught
        assert await scalar(connection, "select %s::int", round_number) == round_number

    assert cancelled > 0


async def test_a_storm_on_one_connection(connection: TrioConnection) -> None:
    """Tasks that share a connection and are cancelled at random leave it in order."""

    async def ask(number: int) -> None:
        for step in range(10):
            with trio.move_on_after(0.0005 * (number + step)):
                answer = await scalar(connection, "select %s::int from pg_sleep(0.001)", number)
                assert answer == number

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(ask, number)

    await assert_usable(connection)


async def test_cancel_without_anything_running(connection: TrioConnection) -> None:
    """A cancel request to an idle or closed session does nothing."""
    await connection.cancel_safe()
    await assert_usable(connection)
    await connection.close()
    await connection.cancel_safe()


async def test_a_waiting_statement_proceeds_when_its_blocker_is_cancelled(
    connection: TrioConnection, observer: TrioConnection, database: str
) -> None:
    """Cancelling the owner of a lock lets the statement go on that waits for it."""
    third = await TrioConnection.connect(database, autocommit=True)
    await connection.execute("create table t (x int); insert into t values (1)")
    async with third, trio.open_nursery() as nursery:
        blocker = trio.CancelScope()

        async def hold() -> None:
            with blocker:
                async with connection.transaction():
                    await connection.execute("update t set x = 2")
                    await connection.execute("select pg_sleep(68)")

        nursery.start_soon(hold)
        await until_running(observer, "pg_sleep(68)")
        nursery.start_soon(third.execute, "update t set x = x + 10")
        await until_blocked(observer)
        blocker.cancel()

    assert await scalar(observer, "select x from t") == 11
