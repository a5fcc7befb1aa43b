"""What goes wrong with Daytona, told apart in one place, and what each means for a create (C53).

The client raises by HTTP status, by its own classes, or as its transport does. All become one
`DaytonaFailure` of one `Trouble`; every operation has a table from trouble to what it answers.
"""

import enum
import re
from datetime import timedelta

from deepline.core.model.unavailable import UnavailableKind
from deepline.ports.errors import OutcomeUnknown, PortError, Refused, SandboxCapacity, Unavailable

RETRY_AFTER = timedelta(seconds=5)
RETRY_AFTER_QUOTA = timedelta(seconds=30)
RETRY_AFTER_MAX = timedelta(minutes=5)
DETAIL_MAX = 300
_QUOTA = re.compile(
    r"\b(total|maximum)\b.*\blimit exceeded|quota|resource limit reached", re.IGNORECASE
)
_FORKS = re.compile(r"\bfork|\bchild", re.IGNORECASE)


class Trouble(enum.StrEnum):
    """Kinds of failure, by what they allow to conclude."""

    NOT_SENT = "not_sent"
    """Nothing reached Daytona."""
    LOST = "connection_lost"
    """It may have reached Daytona; there is no answer."""
    SERVER = "server_error"
    """Somebody answered that it did not work; it may have."""
    THROTTLED = "rate_limited"
    QUOTA = "quota_exceeded"
    UNAUTHORISED = "not_authorised"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "state_change_in_progress"
    HAS_FORKS = "has_forks"
    REJECTED = "rejected"
    MALFORMED = "malformed_answer"
    """An answer that the client cannot read; what was asked may have been done."""


_BY_STATUS = {
    400: Trouble.REJECTED,
    401: Trouble.UNAUTHORISED,
    403: Trouble.FORBIDDEN,
    404: Trouble.NOT_FOUND,
    408: Trouble.SERVER,
    409: Trouble.CONFLICT,
    410: Trouble.REJECTED,
    422: Trouble.REJECTED,
    429: Trouble.THROTTLED,
}


class DaytonaFailure(PortError):
    """A call to Daytona that did not end well.

    `status` is `None` when no answer came. `source` names the service that answered, if it said.
    `detail` is short and without secrets.
    """

    def __init__(
        self,
        trouble: Trouble,
        detail: str,
        *,
        status: int | None = None,
        source: str | None = None,
        retry_after: timedelta | None = None,
    ) -> None:
        answered = "" if status is None else f" (HTTP {status})"
        super().__init__(f"Daytona: {trouble.value}{answered}: {detail}".removesuffix(": "))
        self.trouble = trouble
        self.detail = detail
        self.status = status
        self.source = source
        self.retry_after = retry_after

    @property
    def authoritative(self) -> bool:
        """False when a proxy or a sandbox's daemon said so, which knows less than the API."""
        return self.source in {None, "DAYTONA_API"}


def trouble_of(status: int, message: str) -> Trouble:
    """What an answer's status means; a full quota and forks have no status of their own."""
    if status in {400, 403} and _QUOTA.search(message):
        return Trouble.QUOTA
    if status == 400 and _FORKS.search(message):
        return Trouble.HAS_FORKS
    return _BY_STATUS.get(status, Trouble.SERVER if status >= 500 else Trouble.REJECTED)


def retry_after_of(text: str | None) -> timedelta | None:
    """A `Retry-After` in seconds, within what is sensible; `None` for none or a date."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    if not 0 <= seconds < float("inf"):
        return None
    return min(timedelta(seconds=max(1.0, seconds)), RETRY_AFTER_MAX)


def problem_of_asking(failure: DaytonaFailure) -> PortError:
    """What a look-up raises: it changes nothing, so nothing is ever unknown about it."""
    match failure.trouble:
        case Trouble.THROTTLED:
            return SandboxCapacity(str(failure), failure.retry_after or RETRY_AFTER, "daytona")
        case Trouble.UNAUTHORISED | Trouble.FORBIDDEN | Trouble.REJECTED:
            return Refused(failure.trouble.value, _advice(failure))
        case Trouble.NOT_SENT | Trouble.LOST:
            return Unavailable(str(failure), UnavailableKind.CONNECTION)
        case _:
            return Unavailable(str(failure), UnavailableKind.SERVER_UNAVAILABLE)


def problem_of_changing(failure: DaytonaFailure) -> PortError:
    """What a create or a start raises: deferral, refusal, or that nobody knows (C53, F75)."""
    match failure.trouble:
        case Trouble.QUOTA:
            quota = failure.retry_after or RETRY_AFTER_QUOTA
            return SandboxCapacity(str(failure), quota, "daytona_quota")
        case Trouble.LOST | Trouble.SERVER | Trouble.MALFORMED | Trouble.CONFLICT:
            return OutcomeUnknown(str(failure))
        case Trouble.NOT_FOUND | Trouble.HAS_FORKS:
            return Refused(failure.trouble.value, failure.detail)
        case _:
            return problem_of_asking(failure)


def _advice(failure: DaytonaFailure) -> str:
    if failure.trouble is Trouble.UNAUTHORISED:
        return "Daytona does not accept the key; set DAYTONA_API_KEY to a valid one"
    if failure.trouble is Trouble.FORBIDDEN:
        return (
            "the key lacks a permission; it needs write:sandboxes and delete:sandboxes "
            f"({failure.detail})"
        )
    return failure.detail
