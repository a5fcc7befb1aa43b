"""Listens for notifications on a connection of its own (C59).

Notifications only make things quicker. What was sent while nobody listened is lost, so each time
that a connection listens anew everything has to be looked at once; `on_rescan` says so. A silent
connection may be a dead one, so it is asked for a sign of life now and then.

It does not work through a pooler in transaction mode: the session that would be notified is not
ours between two statements.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import timedelta

import psycopg
import trio
from psycopg import sql

from deepline.adapters.postgres.classify import port_errors
from deepline.adapters.postgres.connection import TrioConnection
from deepline.adapters.postgres.hints import Hint
from deepline.adapters.postgres.opening import open_connection
from deepline.adapters.postgres.settings import ConnectionSettings

SILENCE_MAX = timedelta(seconds=30)
ANSWER_LIMIT = timedelta(seconds=10)


async def listen(
    settings: ConnectionSettings,
    channels: Sequence[str],
    on_notify: Callable[[Hint], None],
    on_rescan: Callable[[], None],
    *,
    silence_max: timedelta = SILENCE_MAX,
) -> None:
    """Listen on `channels` until cancelled, or until the connection fails.

    Calls `on_rescan` once it listens, and `on_notify` for every notification after that; neither
    may wait, and `Hints` has both. Raises port errors; whoever keeps it running calls it again.
    """
    with port_errors():
        connection = await open_connection(settings)
        try:
            await _subscribe(connection, channels)
            on_rescan()
            while True:
                await _hear(connection, on_notify, silence_max)
                await _ask_for_a_sign_of_life(connection)
        finally:
            connection.give_up()


async def _subscribe(connection: TrioConnection, channels: Sequence[str]) -> None:
    for channel in channels:
        await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))


async def _hear(
    connection: TrioConnection, on_notify: Callable[[Hint], None], silence_max: timedelta
) -> None:
    notifications = connection.notifies(timeout=silence_max.total_seconds())
    async with aclosing(notifications):
        async for notification in notifications:
            on_notify(Hint(notification.channel, notification.payload))


async def _ask_for_a_sign_of_life(connection: TrioConnection) -> None:
    with trio.move_on_after(ANSWER_LIMIT.total_seconds()):
        await connection.execute("select 1")
        return
    raise psycopg.OperationalError("the listening connection is silent")
