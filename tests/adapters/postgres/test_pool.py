"""The pool lends whole connections, to few at a time, and loses none."""

from contextlib import aclosing
from datetime import timedelta

import psycopg
import pytest
import trio
import trio.testing
from psycopg import sql

from deepline.adapters.postgres.connection import TrioConnection
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings
from deepline.ports.errors import (
    CapacityExceeded,
    OutcomeUnknown,
    Unavailable,
    UnavailableKind,
)
from tests.support.pools import backend, counts, pool_to
from tests.support.statements import running, scalar, until_over, until_running
from tests.support.tcp_proxy import FaultyProxy

SECOND = timedelta(seconds=1)


async def test_a_connection_is_used_again(database: str) -> None:
    """One borrower after another gets the same connection."""
    async with pool_to(database) as pool:
        assert await backend(pool) == await backend(pool)
        assert pool.counts() == counts(total=1, idle=1)

    assert pool.counts() == counts()


async def test_the_last_one_used_is_lent_first(database: str) -> None:
    """Spare connections are left alone, so that they can grow old."""
    async with pool_to(database) as pool:
        async with pool.lease() as first, pool.lease() as second:
            pids = {first.info.backend_pid, second.info.backend_pid}
        used = {await backend(pool) for _ in range(5)}

    assert len(pids) == 2
    assert len(used) == 1


async def test_first_come_first_served(database: str) -> None:
    """Whoever waits longest is next."""
    served: list[int] = []
    async with pool_to(database, size=1) as pool, trio.open_nursery() as nursery:

        async def borrow(number: int) -> None:
            async with pool.lease():
                served.append(number)

        async with pool.lease():
            for number in range(5):
                nursery.start_soon(borrow, number)
                await trio.testing.wait_all_tasks_blocked()
            assert pool.counts() == counts(total=1, waiting=5)

    assert served == [0, 1, 2, 3, 4]


async def test_session_limits_are_set(database: str) -> None:
    """A direct connection has the limits of its settings, and its name."""
    async with pool_to(database) as pool, pool.lease() as connection:
        names = (
            "statement_timeout",
            "lock_timeout",
            "idle_in_transaction_session_timeout",
            "client_connection_check_interval",
            "application_name",
        )
        shown = [
            await scalar(connection, sql.SQL("show {}").format(sql.Identifier(name)).as_string())
            for name in names
        ]

    assert shown == ["1min", "30s", "1min", "5s", "deepline"]


async def test_the_operators_options_win(database: str) -> None:
    """What the DSN sets for the session is kept, and stands above our defaults."""
    dsn = psycopg.conninfo.make_conninfo(
        database, options="-c statement_timeout=1234 -c work_mem=8MB"
    )
    async with pool_to(dsn) as pool, pool.lease() as connection:
        assert await scalar(connection, "show statement_timeout") == "1234ms"
        assert await scalar(connection, "show work_mem") == "8MB"
        assert await scalar(connection, "show lock_timeout") == "30s"


async def test_nothing_is_set_through_a_pooler(database: str) -> None:
    """Through a pooler no session setting is asked for and nothing is prepared by name."""
    async with (
        pool_to(database, through_pooler=True) as pool,
        pool.lease() as connection,
    ):
        for _ in range(8):
            await scalar(connection, "select %s::int", 1)
        assert await scalar(connection, "show statement_timeout") == "0"
        assert await scalar(connection, "select count(*) from pg_prepared_statements") == 0
        assert not connection.survives_cancel


async def test_an_open_transaction_is_rolled_back(database: str) -> None:
    """What a borrower left open is undone, and the connection goes to the next."""
    async with pool_to(database) as pool:
        async with pool.lease() as connection:
            await connection.execute("create table t (x int)")
            await connection.execute("begin")
            await connection.execute("insert into t values (1)")
        async with pool.lease() as again:
            assert again is connection
            assert await scalar(again, "select count(*) from t") == 0


async def test_a_half_read_stream_is_ended_and_closed(
    database: str, observer: TrioConnection
) -> None:
    """A connection that can't be made idle is closed, and its statement does not go on."""
    async with pool_to(database) as pool:
        async with pool.lease() as connection:
            stream = connection.cursor().stream("select generate_series(1, 50000000) as pooled")
            with trio.move_on_after(0.1):
                async with aclosing(stream) as rows:  # type: ignore[type-var] # it is a generator
                    async for _ in rows:
                        await trio.lowlevel.checkpoint()
        assert pool.counts() == counts()

    await until_over(observer, "as pooled")


async def test_old_connections_are_replaced(database: str) -> None:
    """A connection past its lifetime is not lent again."""
    async with pool_to(database, lifetime_max=timedelta(microseconds=1)) as pool:
        assert await backend(pool) != await backend(pool)
        assert pool.counts() == counts()


async def test_killed_while_idle(database: str, observer: TrioConnection) -> None:
    """A connection that the server ended while nobody had it is noticed before it is lent."""
    async with pool_to(database) as pool:
        pid = await backend(pool)
        await observer.execute("select pg_terminate_backend(%s, 20000)", (pid,))

        assert await backend(pool) != pid


async def test_errors_are_translated(database: str) -> None:
    """A failure of the database leaves a loan as a port error, anything else as itself."""
    async with pool_to(database) as pool:
        with pytest.raises(Unavailable) as caught:
            async with pool.lease() as connection:
                await connection.execute("set statement_timeout = 20; select pg_sleep(74)")
        with pytest.raises(psycopg.errors.DivisionByZero):
            async with pool.lease() as connection:
                await connection.execute("select 1/0")

        assert caught.value.kind is UnavailableKind.QUERY_CANCELLED
        assert pool.counts() == counts(total=1, idle=1)


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        pytest.param(False, Unavailable, id="a-read"),
        pytest.param(True, OutcomeUnknown, id="a-write"),
    ],
)
async def test_lost_under_a_statement(
    database: str, proxy: FaultyProxy, writes: bool, expected: type[Exception]
) -> None:
    """An autocommitted write whose connection is lost may have happened; a read just failed."""
    async with pool_to(proxy.dsn) as pool:
        proxy.when_sent(b"select 75", proxy.cut)
        with pytest.raises(expected):
            async with pool.lease(writes=writes) as connection:
                await connection.execute("select 75")

        assert pool.counts() == counts()


async def test_lost_inside_a_transaction(proxy: FaultyProxy) -> None:
    """Before COMMIT nothing happened, so a write is not in doubt."""
    async with pool_to(proxy.dsn) as pool:
        proxy.when_sent(b"select 76", proxy.cut)
        with pytest.raises(Unavailable):
            async with pool.lease(writes=True) as connection, connection.transaction():
                await connection.execute("select 76")


async def test_commit_unanswered(proxy: FaultyProxy) -> None:
    """A COMMIT without an answer is an unknown outcome, whatever the loan was for."""
    async with pool_to(proxy.dsn) as pool:
        proxy.when_sent(b"COMMIT", proxy.cut)
        with pytest.raises(OutcomeUnknown):
            async with pool.lease() as connection, connection.transaction():
                await connection.execute("select 77")


async def test_the_queue_is_bounded(database: str) -> None:
    """Whoever finds the queue full is told to come back, at once."""
    async with (
        pool_to(database, size=1, waiters_max=1, capacity_retry_after=3 * SECOND) as pool,
        trio.open_nursery() as nursery,
        pool.lease(),
    ):

        async def wait() -> None:
            async with pool.lease():
                pass

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(CapacityExceeded) as caught:
            async with pool.lease():
                pass

        assert caught.value.retry_after == 3 * SECOND
        assert pool.counts() == counts(total=1, waiting=1, saturation_rejections=1)


async def test_waiting_is_bounded(database: str) -> None:
    """So is whoever waited for as long as one may."""
    async with (
        pool_to(database, size=1, wait_limit=timedelta(milliseconds=20)) as pool,
        pool.lease(),
    ):
        with trio.fail_after(20), pytest.raises(CapacityExceeded):
            async with pool.lease():
                pass

        assert pool.counts() == counts(total=1, saturation_rejections=1)


async def test_a_cancelled_waiter_takes_nothing(database: str) -> None:
    """Leaving the queue leaves the pool as it was."""
    async with pool_to(database, size=1) as pool:
        async with pool.lease():
            with trio.move_on_after(0.01) as scope:
                async with pool.lease():
                    pass
        async with pool.lease() as connection:
            assert await scalar(connection, "select 1") == 1

    assert scope.cancelled_caught


async def test_a_storm_of_cancellations_loses_nothing(database: str) -> None:
    """Tasks cancelled at every moment of a loan leave every slot and no open transaction."""
    async with pool_to(database, size=5) as pool:

        async def borrow(number: int) -> None:
            for step in range(8):
                with trio.move_on_after((number * 7 + step * 3) % 20 * 5e-4):
                    async with pool.lease() as connection, connection.transaction():
                        await connection.execute("select pg_sleep(0.001)")

        with trio.fail_after(40):
            async with trio.open_nursery() as nursery:
                for number in range(30):
                    nursery.start_soon(borrow, number)
            async with trio.open_nursery() as nursery:
                everybody = trio.Event()
                lent = 0

                async def hold() -> None:
                    nonlocal lent
                    async with pool.lease() as connection:
                        assert await scalar(connection, "select 1") == 1
                        lent += 1
                        if lent == 5:
                            everybody.set()
                        await everybody.wait()

                for _ in range(5):
                    nursery.start_soon(hold)

        assert pool.counts() == counts(total=5, idle=5)


async def test_all_cancelled_at_once(database: str, observer: TrioConnection) -> None:
    """When everything is cancelled together, nothing runs on and the connections are good."""
    async with pool_to(database, size=5) as pool:

        async def borrow() -> None:
            async with pool.lease() as connection:
                await connection.execute("select pg_sleep(78)")

        with trio.fail_after(20), trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                for _ in range(25):
                    nursery.start_soon(borrow)
                await until_running(observer, "pg_sleep(78)")
                scope.cancel()

        assert await running(observer, "pg_sleep(78)") == 0
        assert pool.counts().waiting == 0
        assert pool.counts().total == pool.counts().idle
        async with pool.lease() as connection:
            assert await scalar(connection, "select 1") == 1


async def test_a_closed_pool_lends_nothing(database: str) -> None:
    """After its block the pool refuses, and what comes back late is closed."""
    async with pool_to(database) as pool:
        loan = pool.lease()
        connection = await loan.__aenter__()
    await loan.__aexit__(None, None, None)

    assert connection.closed
    with pytest.raises(Unavailable):
        await backend(pool)


def test_settings_show_no_password() -> None:
    """The connection string is in no repr."""
    settings = ConnectionSettings(dsn="postgresql://u:hunter2@h/d")

    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize("wrong", [{"size": 0}, {"wait_limit": timedelta(0)}])
def test_settings_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    """A bound of nothing is a mistake."""
    with pytest.raises(ValueError, match="must be"):
        PoolSettings(**wrong)  # type: ignore[arg-type]
