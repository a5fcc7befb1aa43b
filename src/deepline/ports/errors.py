"""What a port may answer instead of a result: six errors, named for what the caller can do.

Adapters translate the errors of the outside world into these in one place each. No message
carries a connection string, a token or a key, so an error may be logged as it is.
Follows C59 (classified database failures), C15 and C54.
"""

from datetime import timedelta
from enum import StrEnum

DEFAULT_RETRY_AFTER = timedelta(seconds=5)
"""How long to leave alone whoever is at capacity and did not say for how long (Q48)."""


class UnavailableKind(StrEnum):
    """Why the other side can't be asked at the moment. None of these spends an attempt (C15)."""

    CONNECTION = "connection"
    SERVER_UNAVAILABLE = "server_unavailable"
    CIRCUIT_OPEN = "circuit_open"
    RETRYABLE_TRANSACTION = "retryable_transaction"
    QUERY_CANCELLED = "query_cancelled"


class PortError(Exception):
    """Base of everything a port raises on purpose."""


class Unavailable(PortError):
    """The operation did not happen; the same call may work later."""

    def __init__(self, reason: str, kind: UnavailableKind) -> None:
        super().__init__(reason, kind)
        self.reason = reason
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.reason} [{self.kind}]"


class CapacityExceeded(PortError):
    """The operation did not happen because `source` is full; ask again after `retry_after`."""

    def __init__(self, retry_after: timedelta, source: str) -> None:
        super().__init__(retry_after, source)
        self.retry_after = retry_after
        self.source = source

    def __str__(self) -> str:
        return f"{self.source} is at capacity, try again in {self.retry_after.total_seconds():g} s"


class FenceLost(PortError):
    """Someone else owns the run or attempt by now; nothing was written, and nothing may be."""


class OutcomeUnknown(PortError):
    """The write may or may not have happened. Read again, then decide."""


class NotFound(PortError):
    """What was asked for does not exist."""


class Refused(PortError):
    """The other side will not do this however often it is asked. `code` is stable, for programs."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.detail} [{self.code}]"
