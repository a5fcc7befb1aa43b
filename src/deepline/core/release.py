"""What an attempt lets go of when its run ended or its fence is lost, in order (C28, I31).

Receipts first, since another attempt or run may wait for them; then the sheets. All best effort:
an expired lease is the way out of a failed release. Nothing is released before the terminal or
the loss of the fence is known.
"""

import enum
from typing import TypeAlias, assert_never

import attrs

from deepline.core.model.identity import AttemptKey
from deepline.core.model.log_event import Level, LogEvent

CHANNEL = "absurd-runtime.worker"


class ReleaseReason(enum.StrEnum):
    """Why receipts are released; the reason is stored with them."""

    FENCE_LOST = "fence_lost"
    FAILED_TERMINAL = "failed_terminal"


@attrs.frozen
class ReleaseReceipts:
    """Release all receipts of the attempt, for this reason."""

    reason: ReleaseReason


@attrs.frozen
class ReleaseSheets:
    """Release what the attempt still holds on sheets."""


Release: TypeAlias = ReleaseReceipts | ReleaseSheets


def after_fence_lost() -> tuple[Release, ...]:
    """The attempt can write no more; its sheets belong to whoever holds the fence."""
    return (ReleaseReceipts(ReleaseReason.FENCE_LOST),)


def after_failed_terminal() -> tuple[Release, ...]:
    """A failed run passes no other cleanup: without this its rerun would wait for its leases."""
    return (ReleaseReceipts(ReleaseReason.FAILED_TERMINAL), ReleaseSheets())


def released_receipts(key: AttemptKey, reason: ReleaseReason, count: int) -> LogEvent | None:
    """The event of a release, `None` when there was nothing to release."""
    if count <= 0:
        return None
    return LogEvent(
        level=Level.INFO,
        channel=CHANNEL,
        name="released terminal receipts",
        fields={
            "runId": key.run_id,
            "generation": key.attempt,
            "reason": reason.value,
            "releasedReceipts": count,
        },
    )


def release_failed(key: AttemptKey, release: Release, error: str) -> LogEvent:
    """The warning of a release that did not work; the next one is tried all the same."""
    match release:
        case ReleaseReceipts(reason):
            return LogEvent(
                level=Level.WARN,
                channel=CHANNEL,
                name="terminal receipt release failed",
                fields={
                    "runId": key.run_id,
                    "generation": key.attempt,
                    "reason": reason.value,
                    "error": error,
                },
            )
        case ReleaseSheets():
            return LogEvent(
                level=Level.WARN,
                channel=CHANNEL,
                name="failed terminal sheet-attempt release failed",
                fields={"runId": key.run_id, "generation": key.attempt, "error": error},
            )
        case _:
            assert_never(release)
