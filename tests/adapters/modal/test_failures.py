"""The one table of what errors of Modal's client mean."""

from datetime import timedelta

import pytest
from modal import exception
from modal_proto import api_pb2

from deepline.adapters.modal.failures import (
    RETRY_AFTER_DEFAULT,
    RETRY_AFTER_MAX,
    judge,
    port_error,
)
from deepline.ports.errors import (
    NotFound,
    OutcomeUnknown,
    PortError,
    Refused,
    SandboxCapacity,
    Unavailable,
)

# Error of the client, what it is for a read, what it is for a call with an effect.
ROWS = [
    pytest.param(exception.NotFoundError, NotFound, NotFound, id="absent"),
    pytest.param(exception.AlreadyExistsError, Refused, Refused, id="taken"),
    pytest.param(exception.AuthError, Refused, Refused, id="token-refused"),
    pytest.param(exception.PermissionDeniedError, Refused, Refused, id="forbidden"),
    pytest.param(exception.InvalidError, Refused, Refused, id="invalid"),
    pytest.param(exception.UnimplementedError, Refused, Refused, id="unimplemented"),
    pytest.param(exception.VersionError, Refused, Refused, id="client-too-old"),
    pytest.param(exception.RequestSizeError, Refused, Refused, id="too-large"),
    pytest.param(exception.RemoteError, Refused, Refused, id="image-build"),
    pytest.param(exception.ConflictError, Unavailable, Unavailable, id="conflict"),
    pytest.param(exception.ClientClosed, Unavailable, Unavailable, id="client-closed"),
    pytest.param(exception.ResourceExhaustedError, SandboxCapacity, SandboxCapacity, id="quota"),
    pytest.param(exception.ServiceError, Unavailable, OutcomeUnknown, id="service"),
    pytest.param(exception.InternalError, Unavailable, OutcomeUnknown, id="internal"),
    pytest.param(exception.DataLossError, Unavailable, OutcomeUnknown, id="data-loss"),
    pytest.param(exception.ConnectionError, Unavailable, OutcomeUnknown, id="connection"),
    pytest.param(exception.SandboxTimeoutError, Unavailable, OutcomeUnknown, id="timeout"),
    pytest.param(exception.SandboxFilesystemError, Unavailable, OutcomeUnknown, id="filesystem"),
    pytest.param(RuntimeError, Unavailable, OutcomeUnknown, id="anything-else"),
]


@pytest.mark.parametrize(("error", "of_a_read", "of_an_effect"), ROWS)
def test_every_error_has_one_meaning(
    error: type[Exception], of_a_read: type[PortError], of_an_effect: type[PortError]
) -> None:
    """Deferral, refusal or unknown: whoever wrote the request decides nothing himself."""
    failure = judge(error("why"))

    assert type(port_error(failure, "do it", has_effect=False)) is of_a_read
    assert type(port_error(failure, "do it", has_effect=True)) is of_an_effect


@pytest.mark.parametrize(
    ("advised_s", "taken"),
    [
        pytest.param(None, RETRY_AFTER_DEFAULT, id="no-advice"),
        pytest.param(12, timedelta(seconds=12), id="advice"),
        pytest.param(86_400, RETRY_AFTER_MAX, id="advice-beyond-bearing"),
    ],
)
def test_advice_of_when_to_come_again_is_followed(
    advised_s: float | None, taken: timedelta
) -> None:
    """The server's word is taken, up to a bound (PROVIDERS 6, 21)."""
    error = exception.ResourceExhaustedError("full")
    if advised_s is not None:
        error._grpc_details = [api_pb2.RPCRetryPolicy(retry_after_secs=advised_s)]

    problem = port_error(judge(error), "create", has_effect=True)

    assert isinstance(problem, SandboxCapacity)
    assert problem.retry_after == taken


def test_a_long_text_is_cut() -> None:
    """What the provider says goes into logs, so there is a bound to it."""
    assert len(judge(exception.ServiceError("x" * 10_000)).detail) == 200
