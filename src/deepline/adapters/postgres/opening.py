"""Opens connections the way our settings say (C59)."""

from datetime import timedelta

import psycopg
import trio
from psycopg.conninfo import conninfo_to_dict

from deepline.adapters.postgres.connection import Parameters, TrioConnection
from deepline.adapters.postgres.settings import ConnectionSettings

_KEEPALIVE_IDLE_S = 15
_KEEPALIVE_INTERVAL_S = 5


async def open_connection(settings: ConnectionSettings) -> TrioConnection:
    """A connection in autocommit mode, so that a transaction is only what says that it is one.

    Raises psycopg.OperationalError when there is no connection within the limit, and Refused when
    the connection string can't be used.
    """
    with trio.move_on_after(settings.connect_limit.total_seconds()):
        connection = await TrioConnection.connect(
            settings.dsn,
            autocommit=True,
            prepare_threshold=None if settings.through_pooler else settings.prepare_threshold,
            parameters=_parameters(settings),
        )
        connection.grace_s = settings.grace.total_seconds()
        connection.survives_cancel = not settings.through_pooler
        return connection
    raise psycopg.errors.ConnectionTimeout(
        f"no connection within {settings.connect_limit.total_seconds():g} s"
    )


def _parameters(settings: ConnectionSettings) -> Parameters:
    parameters: Parameters = {
        "application_name": settings.application_name,
        "client_encoding": "UTF8",
        "keepalives_idle": _KEEPALIVE_IDLE_S,
        "keepalives_interval": _KEEPALIVE_INTERVAL_S,
        "tcp_user_timeout": _milliseconds(settings.silence_limit),
    }
    # A pooler refuses a connection that asks for session settings.
    if not settings.through_pooler and (options := _session_options(settings)):
        given = _options_in(settings.dsn)
        parameters["options"] = f"{options} {given}" if given else options
    return parameters


def _session_options(settings: ConnectionSettings) -> str:
    limits = {
        "statement_timeout": settings.statement_limit,
        "lock_timeout": settings.lock_limit,
        "idle_in_transaction_session_timeout": settings.idle_in_transaction_limit,
        "client_connection_check_interval": settings.client_check_interval,
    }
    return " ".join(
        f"-c {name}={_milliseconds(limit)}" for name, limit in limits.items() if limit is not None
    )


def _options_in(dsn: str) -> str | None:
    """The session settings that the operator wrote into the DSN; they come last, and so win."""
    try:
        given = conninfo_to_dict(dsn).get("options")
    except psycopg.ProgrammingError:
        return None  # the connect says what is wrong with it
    return str(given) if given else None


def _milliseconds(length: timedelta) -> int:
    return max(1, round(length / timedelta(milliseconds=1)))
