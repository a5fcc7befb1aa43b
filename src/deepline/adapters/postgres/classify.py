"""Which port error a failure of the database is (C59): the one place that knows SQLSTATEs.

    capacity               the database or a pooler is full         CapacityExceeded
    connection             no connection, or it was lost            Unavailable
    server unavailable     the server is going down or coming up    Unavailable
    retryable transaction  the same transaction may work next time  Unavailable
    query cancellation     a limit or a person ended the statement  Unavailable
    unknown outcome        a commit was not answered                OutcomeUnknown

Everything else, such as a violated constraint, is for the store to understand, and passes as it
is. A port error says what kind of failure it was and its SQLSTATE; the server's own words stay in
its `__cause__`.

While a connection is being made libpq reports no SQLSTATE, only a text; a pooler answers most
things with one SQLSTATE and a text. So a few English texts are known here as well. A text that is
not recognised means "connection", which every caller treats as a reason to wait.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import attrs
import psycopg

from deepline.adapters.postgres.transaction import CommitOutcomeUnknown
from deepline.core.capacity_deferral import DEFAULT_RETRY_AFTER
from deepline.ports.errors import (
    CapacityExceeded,
    OutcomeUnknown,
    PortError,
    Unavailable,
    UnavailableKind,
)

SOURCE = "database"


@attrs.frozen
class Capacity:
    """The database or a pooler in front of it is full."""

    rule: str


@attrs.frozen
class NotNow:
    """The database can't do it now."""

    kind: UnavailableKind
    rule: str


@attrs.frozen
class InDoubt:
    """It may have happened."""

    rule: str


@attrs.frozen
class Unclassified:
    """No failure of the database as such."""


Classification = Capacity | NotNow | InDoubt | Unclassified

_CAPACITY_CLASS = "53"
_CONNECTION_CLASS = "08"
_COMPLETION_UNKNOWN = "40003"

_KINDS = {
    "57P01": UnavailableKind.SERVER_UNAVAILABLE,  # admin_shutdown
    "57P02": UnavailableKind.SERVER_UNAVAILABLE,  # crash_shutdown
    "57P03": UnavailableKind.SERVER_UNAVAILABLE,  # cannot_connect_now
    "25006": UnavailableKind.SERVER_UNAVAILABLE,  # read_only_sql_transaction: we met a standby
    "57P05": UnavailableKind.CONNECTION,  # idle_session_timeout
    "25P03": UnavailableKind.CONNECTION,  # idle_in_transaction_session_timeout
    "25P04": UnavailableKind.CONNECTION,  # transaction_timeout
    "40001": UnavailableKind.RETRYABLE_TRANSACTION,  # serialization_failure
    "40P01": UnavailableKind.RETRYABLE_TRANSACTION,  # deadlock_detected
    "55P03": UnavailableKind.RETRYABLE_TRANSACTION,  # lock_not_available
    "57014": UnavailableKind.QUERY_CANCELLED,  # query_canceled
}

_CAPACITY_TEXTS = (
    "sorry, too many clients already",
    "remaining connection slots are reserved",
    "too many connections for role",
    "too many connections for database",
    "no more connections allowed",  # PgBouncer
    "client connections exceeded",  # PgBouncer
    "query_wait_timeout",  # PgBouncer
    "bouncer resources exhaustion",  # PgBouncer
    "max clients reached",  # Supavisor
)

_SERVER_TEXTS = (
    "the database system is starting up",
    "the database system is shutting down",
    "the database system is in recovery mode",
    "the database system is not accepting connections",
    "the database system is not yet accepting connections",
)

_REASONS = {
    UnavailableKind.CONNECTION: "no connection to the database",
    UnavailableKind.SERVER_UNAVAILABLE: "the database server is not available",
    UnavailableKind.RETRYABLE_TRANSACTION: "the transaction met another one",
    UnavailableKind.QUERY_CANCELLED: "the database cancelled the statement",
    UnavailableKind.CIRCUIT_OPEN: "the database did not answer lately and is left alone",
}


def classify(error: BaseException) -> Classification:
    """What kind of failure this is, and the name of the rule that says so. First match wins."""
    if isinstance(error, CommitOutcomeUnknown):
        return InDoubt("commit-unanswered")
    if not isinstance(error, psycopg.Error):
        return Unclassified()
    if error.sqlstate is None:
        return _by_text(error)
    return _by_sqlstate(error, error.sqlstate)


def _by_sqlstate(error: psycopg.Error, sqlstate: str) -> Classification:
    if sqlstate == _COMPLETION_UNKNOWN:
        return InDoubt(sqlstate)
    if sqlstate.startswith(_CAPACITY_CLASS):
        return Capacity(sqlstate)
    if sqlstate.startswith(_CONNECTION_CLASS):
        # PgBouncer calls nearly everything a protocol violation.
        if _mentions(error, _CAPACITY_TEXTS):
            return Capacity("pooler-text")
        return NotNow(UnavailableKind.CONNECTION, sqlstate)
    if sqlstate in _KINDS:
        return NotNow(_KINDS[sqlstate], sqlstate)
    return Unclassified()


def _by_text(error: psycopg.Error) -> Classification:
    """Failures that carry no SQLSTATE: those of the connection, and our own wrong calls."""
    if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return Unclassified()
    if _mentions(error, _CAPACITY_TEXTS):
        return Capacity("connect-text")
    if _mentions(error, _SERVER_TEXTS):
        return NotNow(UnavailableKind.SERVER_UNAVAILABLE, "connect-text")
    return NotNow(UnavailableKind.CONNECTION, "no-sqlstate")


def _mentions(error: psycopg.Error, texts: tuple[str, ...]) -> bool:
    said = str(error).lower()
    return any(text in said for text in texts)


def port_error(
    error: BaseException, retry_after: timedelta = DEFAULT_RETRY_AFTER
) -> PortError | None:
    """The port error to raise for a failure, or None if it is none of the database's own."""
    match classify(error):
        case Capacity(rule):
            return CapacityExceeded(f"the database is full ({rule})", retry_after, SOURCE)
        case NotNow(kind, rule):
            return Unavailable(f"{_REASONS[kind]} ({rule})", kind)
        case InDoubt(rule):
            return OutcomeUnknown(f"the database may or may not have committed ({rule})")
        case Unclassified():
            return None


@contextmanager
def port_errors(retry_after: timedelta = DEFAULT_RETRY_AFTER) -> Iterator[None]:
    """Translate what the database raises in a block; other errors pass as they are."""
    try:
        yield
    except psycopg.Error as error:
        translated = port_error(error, retry_after)
        if translated is None:
            raise
        raise translated from error
