"""Small questions that tests ask a database."""

from typing import Any

import trio

from deepline.adapters.postgres.connection import TrioConnection


async def scalar(connection: TrioConnection, statement: str, *arguments: object) -> Any:
    """The first column of the first row."""
    cursor = await connection.execute(statement, arguments or None)
    row = await cursor.fetchone()
    assert row is not None
    return row[0]


async def running(observer: TrioConnection, text: str) -> int:
    """How many other sessions run a statement with this text in it."""
    count = await scalar(
        observer,
        "select count(*) from pg_stat_activity where state = 'active' and query like %s"
        " and pid <> pg_backend_pid()",
        f"%{text}%",
    )
    return int(count)


async def until_running(observer: TrioConnection, text: str) -> None:
    """Wait until some other session runs such a statement."""
    with trio.fail_after(20):
        while not await running(observer, text):  # noqa: ASYNC110, only the server knows
            await trio.sleep(0.01)


async def until_blocked(observer: TrioConnection) -> None:
    """Wait until some other session of this database waits for a lock."""
    with trio.fail_after(20):
        while not await _blocked(observer):  # noqa: ASYNC110, only the server knows
            await trio.sleep(0.01)


async def until_over(observer: TrioConnection, text: str) -> None:
    """Wait until no other session runs such a statement any more."""
    with trio.fail_after(20):
        while await running(observer, text):  # noqa: ASYNC110, only the server knows
            await trio.sleep(0.01)


async def _blocked(observer: TrioConnection) -> int:
    count = await scalar(
        observer,
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        " and datname = current_database()",
    )
    return int(count)
