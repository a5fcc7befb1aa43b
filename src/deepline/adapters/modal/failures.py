"""What an error of Modal's client means: the one table (C46, C51, PROVIDERS 2.2).

Errors go by the names of their classes, so that the table can be read without the vendor's package.
The first class of an error's ancestry that the table has decides; one that it has not may have
come after the effect.
"""

import enum
from datetime import timedelta

import attrs

from deepline.core.model.unavailable import UnavailableKind
from deepline.ports.errors import (
    NotFound,
    OutcomeUnknown,
    PortError,
    Refused,
    SandboxCapacity,
    Unavailable,
)

RETRY_AFTER_DEFAULT = timedelta(seconds=5)
RETRY_AFTER_MAX = timedelta(minutes=5)
DETAIL_MAX = 200


class Meaning(enum.Enum):
    """What the provider said about a call."""

    ABSENT = "what was named is not there"
    TAKEN = "the name is in use"
    REFUSED = "it will never work so"
    FULL = "not now: a quota or a rate"
    NOT_DONE = "it was not done, and may be later"
    UNCERTAIN = "it may or may not have been done"


@attrs.frozen(kw_only=True)
class Failure:
    """An error of the client, judged. `detail` is short and safe to show."""

    meaning: Meaning
    code: str
    detail: str
    retry_after: timedelta | None = None


TABLE: dict[str, tuple[Meaning, str]] = {
    "NotFoundError": (Meaning.ABSENT, "not_found"),
    "AlreadyExistsError": (Meaning.TAKEN, "name_taken"),
    "AuthError": (Meaning.REFUSED, "unauthenticated"),
    "PermissionDeniedError": (Meaning.REFUSED, "forbidden"),
    "ConflictError": (Meaning.NOT_DONE, "conflict"),
    "InvalidError": (Meaning.REFUSED, "invalid"),
    "UnimplementedError": (Meaning.REFUSED, "unimplemented"),
    "VersionError": (Meaning.REFUSED, "client_too_old"),
    "RequestSizeError": (Meaning.REFUSED, "too_large"),
    "RemoteError": (Meaning.REFUSED, "image_build"),
    "ResourceExhaustedError": (Meaning.FULL, "exhausted"),
    "ClientClosed": (Meaning.NOT_DONE, "client_closed"),
    "ServiceError": (Meaning.UNCERTAIN, "service"),
    "InternalError": (Meaning.UNCERTAIN, "internal"),
    "DataLossError": (Meaning.UNCERTAIN, "data_loss"),
    "TimeoutError": (Meaning.UNCERTAIN, "timeout"),
    "ConnectionError": (Meaning.UNCERTAIN, "connection"),
    "StreamTerminatedError": (Meaning.UNCERTAIN, "connection"),
    "SandboxFilesystemError": (Meaning.UNCERTAIN, "filesystem"),
}


def judge(error: Exception) -> Failure:
    """Say what an error of the client means."""
    known = (TABLE[one.__name__] for one in type(error).__mro__ if one.__name__ in TABLE)
    meaning, code = next(known, (Meaning.UNCERTAIN, type(error).__name__))
    return Failure(
        meaning=meaning,
        code=f"modal_{code}",
        detail=str(error)[:DETAIL_MAX] or type(error).__name__,
        retry_after=_retry_after(error),
    )


def port_error(failure: Failure, doing: str, *, has_effect: bool) -> PortError:
    """The error of the port. `has_effect`: it may be done though nobody said so."""
    text = f"Modal could not {doing}: {failure.detail} ({failure.code})"
    match failure.meaning:
        case Meaning.ABSENT:
            return NotFound(text)
        case Meaning.TAKEN | Meaning.REFUSED:
            return Refused(failure.code, f"Modal will not {doing}: {failure.detail}")
        case Meaning.FULL:
            wait = failure.retry_after or RETRY_AFTER_DEFAULT
            return SandboxCapacity(text, wait, "modal")
        case Meaning.NOT_DONE:
            return Unavailable(text, UnavailableKind.SERVER_UNAVAILABLE)
        case Meaning.UNCERTAIN:
            if has_effect:
                return OutcomeUnknown(text)
            return Unavailable(text, UnavailableKind.SERVER_UNAVAILABLE)


def _retry_after(error: Exception) -> timedelta | None:
    """When the server said to come again; the client's own words for it warn of their end."""
    for detail in getattr(error, "_grpc_details", None) or ():
        seconds = getattr(detail, "retry_after_secs", None)
        if isinstance(seconds, float | int) and seconds > 0:
            return min(timedelta(seconds=seconds), RETRY_AFTER_MAX)
    return None
