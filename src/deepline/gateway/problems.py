"""Errors as `application/problem+json`: what went wrong, a code for machines, what to do.

`Problem` is raised by handlers; errors of ports become one here and nowhere else.
"""

import math
from datetime import timedelta
from http import HTTPStatus

from starlette.responses import JSONResponse, Response

from deepline.core.capacity_deferral import CAPACITY_CODE
from deepline.ports.errors import (
    CapacityExceeded,
    FenceLost,
    MalformedDocument,
    NotFound,
    OutcomeUnknown,
    PortError,
    Refused,
    Unavailable,
)

ATTEMPT_OVER = "attempt_over"
"""The code of every write that an attempt which is over is refused."""
_RETRY_SOON = timedelta(seconds=1)
_REFUSED_STATUS = {"run_ended": 409, "event_quota": 429}


class Problem(Exception):
    """An answer that says no. `detail` is shown to the caller and holds no secret."""

    def __init__(
        self, status: int, code: str, detail: str, *, retry_after: timedelta | None = None
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        self.retry_after = retry_after


def invalid(detail: str) -> Problem:
    """A request that cannot be understood as it stands."""
    return Problem(422, "invalid_request", detail)


def unknown_run() -> Problem:
    """The same answer for a run that does not exist and for another organisation's."""
    return Problem(404, "run_not_found", "No run of this id is visible to this key; check the id.")


def problem_of(error: PortError) -> Problem:
    """Say an error of a port in the words of HTTP."""
    if isinstance(error, CapacityExceeded):
        return Problem(
            503,
            CAPACITY_CODE,
            "No room for more work right now; ask again after the time given.",
            retry_after=error.retry_after,
        )
    if isinstance(error, Unavailable):
        return Problem(
            503,
            "store_unavailable",
            "The store does not answer; nothing was written, ask again shortly.",
            retry_after=_RETRY_SOON,
        )
    if isinstance(error, OutcomeUnknown):
        return Problem(
            503,
            "outcome_unknown",
            "The call may or may not have taken effect; read the state, or repeat the same call.",
            retry_after=_RETRY_SOON,
        )
    if isinstance(error, FenceLost):
        return Problem(409, ATTEMPT_OVER, "This attempt is over; stop working for it.")
    if isinstance(error, NotFound):
        return Problem(404, "not_found", f"{error}; check the name.")
    if isinstance(error, MalformedDocument):
        return invalid(f"{error}.") if error.path else Problem(400, "invalid_json", f"{error}.")
    if isinstance(error, Refused):
        return Problem(_REFUSED_STATUS.get(error.code, 422), error.code, error.detail)
    return Problem(502, "dependency_failed", "Something the gateway needs failed; ask again later.")


def problem_response(problem: Problem, request_id: str) -> Response:
    """Render a problem; `instance` is the request's id, by which the log can be searched."""
    body: dict[str, str | int] = {
        "type": f"urn:deepline:problem:{problem.code}",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
        "error": problem.detail,
        "instance": f"urn:deepline:request:{request_id}",
    }
    headers: dict[str, str] = {}
    if problem.retry_after is not None:
        seconds = problem.retry_after.total_seconds()
        body["retryAfterMs"] = math.ceil(seconds * 1000)
        headers["retry-after"] = str(max(1, math.ceil(seconds)))
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(
        body, problem.status, headers=headers, media_type="application/problem+json"
    )
