"""Turning what effects raised into the failures that rules judge (C15, C19)."""

from deepline.core.failures import (
    CapacityFailure,
    Failure,
    FenceLostFailure,
    OtherFailure,
    PreCodeFailure,
    RetryableFailure,
    TokenOutage,
    UnknownOutcome,
)
from deepline.ports.errors import (
    CapacityExceeded,
    ExecutorTokenUnavailable,
    FenceLost,
    OutcomeUnknown,
    PreCodeUnavailable,
    Unavailable,
)
from deepline.runtime.supervision import text_of

LONGEST_REASON = 2_000


def failure_of(error: Exception) -> Failure:
    """Classify an error; a group counts as its first error."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    reason = text_of(error)[:LONGEST_REASON]
    match error:
        case CapacityExceeded():
            return CapacityFailure(
                reason=reason, retry_after=error.retry_after, source=error.source
            )
        case ExecutorTokenUnavailable():
            return TokenOutage(reason=reason, status=error.status)
        case PreCodeUnavailable():
            return PreCodeFailure(
                reason=reason,
                dependency=error.dependency,
                cause=error.cause,
                detail=error.detail,
            )
        case FenceLost():
            return FenceLostFailure(reason=reason)
        case OutcomeUnknown():
            return UnknownOutcome(reason=reason)
        case Unavailable():
            return RetryableFailure(reason=reason, kind=error.kind)
        case _:
            return OtherFailure(reason=f"{type(error).__name__}: {reason}"[:LONGEST_REASON])
