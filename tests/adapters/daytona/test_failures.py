"""The table from Daytona's errors to deferral, refusal or unknown (C53)."""

from datetime import timedelta

import pytest

from deepline.adapters.daytona.failures import (
    RETRY_AFTER_MAX,
    DaytonaFailure,
    Trouble,
    problem_of_asking,
    problem_of_changing,
    retry_after_of,
    trouble_of,
)
from deepline.ports.errors import OutcomeUnknown, PortError, Refused, SandboxCapacity, Unavailable


@pytest.mark.parametrize(
    ("status", "message", "trouble"),
    [
        pytest.param(400, "bad", Trouble.REJECTED, id="400"),
        pytest.param(400, "Total CPU limit exceeded. Maximum allowed: 9.", Trouble.QUOTA, id="cpu"),
        pytest.param(403, "Total disk limit exceeded", Trouble.QUOTA, id="quota-as-403"),
        pytest.param(400, "Sandbox resource limit reached (16)", Trouble.QUOTA, id="runner-full"),
        pytest.param(400, "it has fork children", Trouble.HAS_FORKS, id="400-forks"),
        pytest.param(401, "", Trouble.UNAUTHORISED, id="401"),
        pytest.param(403, "no permission", Trouble.FORBIDDEN, id="403"),
        pytest.param(404, "", Trouble.NOT_FOUND, id="404"),
        pytest.param(408, "", Trouble.SERVER, id="408"),
        pytest.param(409, "", Trouble.CONFLICT, id="409"),
        pytest.param(410, "", Trouble.REJECTED, id="410"),
        pytest.param(418, "", Trouble.REJECTED, id="unknown-4xx"),
        pytest.param(422, "", Trouble.REJECTED, id="422"),
        pytest.param(429, "", Trouble.THROTTLED, id="429"),
        pytest.param(500, "", Trouble.SERVER, id="500"),
        pytest.param(502, "quota", Trouble.SERVER, id="a-word-in-502"),
        pytest.param(503, "", Trouble.SERVER, id="503"),
        pytest.param(504, "", Trouble.SERVER, id="504"),
    ],
)
def test_what_a_status_means(status: int, message: str, trouble: Trouble) -> None:
    """A status is one trouble; what has no status of its own is told by its words."""
    assert trouble_of(status, message) is trouble


@pytest.mark.parametrize(
    ("trouble", "asking", "changing"),
    [
        pytest.param(Trouble.NOT_SENT, Unavailable, Unavailable, id="not-sent"),
        pytest.param(Trouble.LOST, Unavailable, OutcomeUnknown, id="lost"),
        pytest.param(Trouble.SERVER, Unavailable, OutcomeUnknown, id="server"),
        pytest.param(Trouble.MALFORMED, Unavailable, OutcomeUnknown, id="malformed"),
        pytest.param(Trouble.CONFLICT, Unavailable, OutcomeUnknown, id="conflict"),
        pytest.param(Trouble.THROTTLED, SandboxCapacity, SandboxCapacity, id="throttled"),
        pytest.param(Trouble.QUOTA, Unavailable, SandboxCapacity, id="quota"),
        pytest.param(Trouble.UNAUTHORISED, Refused, Refused, id="unauthorised"),
        pytest.param(Trouble.FORBIDDEN, Refused, Refused, id="forbidden"),
        pytest.param(Trouble.REJECTED, Refused, Refused, id="rejected"),
        pytest.param(Trouble.NOT_FOUND, Unavailable, Refused, id="not-found"),
        pytest.param(Trouble.HAS_FORKS, Unavailable, Refused, id="has-forks"),
    ],
)
def test_what_a_trouble_becomes(
    trouble: Trouble, asking: type[PortError], changing: type[PortError]
) -> None:
    """A look-up never leaves anything unknown; what changes something may."""
    failure = DaytonaFailure(trouble, "why")

    assert type(problem_of_asking(failure)) is asking
    assert type(problem_of_changing(failure)) is changing


def test_every_trouble_has_a_row() -> None:
    """The table above leaves no trouble out."""
    (mark,) = test_what_a_trouble_becomes.pytestmark  # type: ignore[attr-defined]

    assert {row.values[0] for row in mark.args[1]} == set(Trouble)


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        pytest.param("7", timedelta(seconds=7), id="seconds"),
        pytest.param("0", timedelta(seconds=1), id="at-least-a-second"),
        pytest.param("86400", RETRY_AFTER_MAX, id="not-for-ever"),
        pytest.param("inf", None, id="infinite"),
        pytest.param("nan", None, id="no-number"),
        pytest.param("Wed, 21 Oct 2026 07:28:00 GMT", None, id="a-date"),
        pytest.param("-1", None, id="negative"),
        pytest.param(None, None, id="absent"),
    ],
)
def test_a_wait_is_taken_within_bounds(text: str | None, wait: timedelta | None) -> None:
    """What a server asks for is believed as far as it is sensible."""
    assert retry_after_of(text) == wait


def test_a_rate_limit_carries_its_wait() -> None:
    """The caller waits as long as Daytona asked (F21)."""
    failure = DaytonaFailure(Trouble.THROTTLED, "slow down", retry_after=timedelta(seconds=42))

    problem = problem_of_changing(failure)

    assert isinstance(problem, SandboxCapacity)
    assert problem.retry_after == timedelta(seconds=42)
