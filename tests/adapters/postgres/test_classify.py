"""Which port error a failure of the database is (C59, C15), row by row."""

from datetime import timedelta

import psycopg
import pytest
from psycopg import errors

from deepline.adapters.postgres.classify import (
    Capacity,
    Classification,
    InDoubt,
    NotNow,
    Unclassified,
    classify,
    port_error,
    port_errors,
)
from deepline.adapters.postgres.transaction import CommitOutcomeUnknown
from deepline.ports.errors import CapacityExceeded, OutcomeUnknown, Unavailable, UnavailableKind

CONNECTION = UnavailableKind.CONNECTION
SERVER = UnavailableKind.SERVER_UNAVAILABLE
RETRY = UnavailableKind.RETRYABLE_TRANSACTION
CANCELLED = UnavailableKind.QUERY_CANCELLED


def of(sqlstate: str, text: str = "") -> psycopg.Error:
    """An error as the server reports it."""
    return errors.lookup(sqlstate)(text)


def connecting(text: str) -> psycopg.Error:
    """An error as libpq reports it while a connection is made: a text and nothing else."""
    return psycopg.OperationalError(f'connection to server at "db" failed: FATAL:  {text}')


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(of("53300"), Capacity("53300"), id="C59-too-many-connections"),
        pytest.param(of("53400"), Capacity("53400"), id="C59-configuration-limit"),
        pytest.param(of("53200"), Capacity("53200"), id="C59-out-of-memory"),
        pytest.param(of("53100"), Capacity("53100"), id="C59-disk-full"),
        pytest.param(
            of("08P01", "no more connections allowed (max_client_conn)"),
            Capacity("pooler-text"),
            id="C59-pgbouncer-full",
        ),
        pytest.param(
            of("08P01", "query_wait_timeout"), Capacity("pooler-text"), id="C59-pgbouncer-wait"
        ),
        pytest.param(of("08006"), NotNow(CONNECTION, "08006"), id="C59-connection-failure"),
        pytest.param(of("08003"), NotNow(CONNECTION, "08003"), id="C59-no-connection"),
        pytest.param(
            of("08P01", "server conn crashed?"),
            NotNow(CONNECTION, "08P01"),
            id="C59-pgbouncer-lost-its-server",
        ),
        pytest.param(of("57P01"), NotNow(SERVER, "57P01"), id="C59-admin-shutdown"),
        pytest.param(of("57P02"), NotNow(SERVER, "57P02"), id="C59-crash-shutdown"),
        pytest.param(of("57P03"), NotNow(SERVER, "57P03"), id="C59-cannot-connect-now"),
        pytest.param(of("25006"), NotNow(SERVER, "25006"), id="C59-standby-after-failover"),
        pytest.param(of("57P05"), NotNow(CONNECTION, "57P05"), id="C59-idle-session-ended"),
        pytest.param(of("25P03"), NotNow(CONNECTION, "25P03"), id="C59-idle-transaction-ended"),
        pytest.param(of("25P04"), NotNow(CONNECTION, "25P04"), id="C59-long-transaction-ended"),
        pytest.param(of("40001"), NotNow(RETRY, "40001"), id="C59-serialization-failure"),
        pytest.param(of("40P01"), NotNow(RETRY, "40P01"), id="C59-deadlock"),
        pytest.param(of("55P03"), NotNow(RETRY, "55P03"), id="C59-lock-not-available"),
        pytest.param(of("57014"), NotNow(CANCELLED, "57014"), id="C59-query-cancelled"),
        pytest.param(of("40003"), InDoubt("40003"), id="C59-completion-unknown"),
        pytest.param(
            CommitOutcomeUnknown("no answer"), InDoubt("commit-unanswered"), id="C59-commit-lost"
        ),
        pytest.param(
            connecting("sorry, too many clients already"),
            Capacity("connect-text"),
            id="C59-connect-too-many-clients",
        ),
        pytest.param(
            connecting("remaining connection slots are reserved for roles with SUPERUSER"),
            Capacity("connect-text"),
            id="C59-connect-reserved-slots",
        ),
        pytest.param(
            connecting('too many connections for role "app"'),
            Capacity("connect-text"),
            id="C59-connect-role-limit",
        ),
        pytest.param(
            connecting("no more connections allowed (max_client_conn)"),
            Capacity("connect-text"),
            id="C59-connect-pgbouncer-full",
        ),
        pytest.param(
            connecting("the database system is starting up"),
            NotNow(SERVER, "connect-text"),
            id="C59-connect-starting-up",
        ),
        pytest.param(
            connecting("the database system is shutting down"),
            NotNow(SERVER, "connect-text"),
            id="C59-connect-shutting-down",
        ),
        pytest.param(
            connecting("Connection refused"),
            NotNow(CONNECTION, "no-sqlstate"),
            id="C59-connect-refused",
        ),
        pytest.param(
            connecting('password authentication failed for user "app"'),
            NotNow(CONNECTION, "no-sqlstate"),
            id="C59-connect-not-let-in",
        ),
        pytest.param(
            psycopg.InterfaceError("the cursor is closed"),
            NotNow(CONNECTION, "no-sqlstate"),
            id="C59-used-after-close",
        ),
        pytest.param(
            errors.ConnectionTimeout("no connection"),
            NotNow(CONNECTION, "no-sqlstate"),
            id="C59-connect-limit",
        ),
        pytest.param(of("23505"), Unclassified(), id="C59-unique-violation-is-the-stores"),
        pytest.param(of("42601"), Unclassified(), id="C59-syntax-error-is-a-bug"),
        pytest.param(
            psycopg.ProgrammingError("the last operation didn't produce records"),
            Unclassified(),
            id="C59-wrong-use-is-a-bug",
        ),
        pytest.param(FileNotFoundError(), Unclassified(), id="C59-not-the-databases-error"),
    ],
)
def test_classify(error: Exception, expected: Classification) -> None:
    """What kind of failure an error is, and which rule says so."""
    assert classify(error) == expected


def test_capacity_carries_how_long_to_wait() -> None:
    """A capacity error says when to come back."""
    failure = port_error(of("53300"), timedelta(seconds=7))

    assert isinstance(failure, CapacityExceeded)
    assert failure.retry_after == timedelta(seconds=7)
    assert str(failure) == "the database is full (53300)"


def test_unavailable_carries_its_kind() -> None:
    """An unavailable database says in which way."""
    failure = port_error(of("40P01", "deadlock detected: secret detail"))

    assert isinstance(failure, Unavailable)
    assert failure.kind is RETRY
    assert str(failure) == "the transaction met another one (40P01)"


def test_in_doubt() -> None:
    """An unanswered commit is an unknown outcome."""
    assert isinstance(port_error(CommitOutcomeUnknown("no answer")), OutcomeUnknown)


def test_block_translates() -> None:
    """A failure of the database leaves a block as a port error, with the original as its cause."""
    original = of("57P01")
    with pytest.raises(Unavailable) as caught, port_errors():
        raise original

    assert caught.value.__cause__ is original


@pytest.mark.parametrize("error", [of("23505"), ZeroDivisionError()])
def test_block_leaves_the_rest(error: Exception) -> None:
    """What is not classified leaves a block as it is."""
    with pytest.raises(type(error)) as caught, port_errors():
        raise error

    assert caught.value is error
