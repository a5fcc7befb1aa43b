"""What went wrong, as values: rules take a `Failure`, the runtime caught an exception (C15, C19).

The rules know neither ports nor exceptions. The runtime turns whatever an effect raised into one
of these before it asks a rule. `reason` is a short safe text: it may be stored and logged.
"""

import enum
from datetime import timedelta
from typing import TypeAlias

import attrs

from deepline.core.model.unavailable import UnavailableKind


class EngineSignalKind(enum.StrEnum):
    """What the engine, not the work, wants: put off, parked, cancelled, or failed elsewhere."""

    DEFER = "defer"
    SUSPEND = "suspend"
    CANCELLED = "cancelled"
    FAILED = "failed"


@attrs.frozen(kw_only=True)
class EngineSignal:
    """The engine run changes hands or rests; this is no failure of the work."""

    kind: EngineSignalKind
    reason: str = ""


@attrs.frozen(kw_only=True)
class CapacityFailure:
    """No room now. `retry_after` is `None` when the other side named no time (Q48)."""

    reason: str
    retry_after: timedelta | None = None
    source: str = "unknown"


@attrs.frozen(kw_only=True)
class RetryableFailure:
    """The store did not do it and may later; nothing was written."""

    reason: str
    kind: UnavailableKind


@attrs.frozen(kw_only=True)
class TokenOutage:
    """The token route gave no useful answer; `status` is `None` when no response came (C16)."""

    reason: str
    status: int | None


@attrs.frozen(kw_only=True)
class PreCodeFailure:
    """A dependency failed before play code ran. `detail` and `provider_text` are for logs only."""

    reason: str
    dependency: str
    cause: str
    detail: str | None = None
    provider_text: str | None = None


@attrs.frozen(kw_only=True)
class FenceLostFailure:
    """The attempt or the claim is no longer this holder's; nothing was written."""

    reason: str


@attrs.frozen(kw_only=True)
class UnknownOutcome:
    """A write may or may not have happened; only a read can tell."""

    reason: str


@attrs.frozen(kw_only=True)
class OtherFailure:
    """Anything else: a bug, a refusal, a rejected launch."""

    reason: str


Failure: TypeAlias = (
    EngineSignal
    | CapacityFailure
    | RetryableFailure
    | TokenOutage
    | PreCodeFailure
    | FenceLostFailure
    | UnknownOutcome
    | OtherFailure
)

_NAMES: dict[type[Failure], str] = {
    EngineSignal: "engine_signal",
    CapacityFailure: "capacity",
    RetryableFailure: "retryable",
    TokenOutage: "token_outage",
    PreCodeFailure: "pre_code",
    FenceLostFailure: "fence_lost",
    UnknownOutcome: "unknown_outcome",
    OtherFailure: "other",
}


def name_of(failure: Failure) -> str:
    """The stable name of a failure's class, for evidence."""
    return _NAMES[type(failure)]
