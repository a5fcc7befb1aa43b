"""How ports fail: few, flat errors named after what went wrong for the caller (C59).

Messages never hold a connection string, a token or a lease token.
"""

from datetime import timedelta

from deepline.core.model.unavailable import UnavailableKind

__all__ = [
    "CapacityExceeded",
    "ExecutorTokenCapacity",
    "ExecutorTokenUnavailable",
    "FenceLost",
    "NotFound",
    "OutcomeUnknown",
    "PortError",
    "PreCodeUnavailable",
    "Refused",
    "SandboxCapacity",
    "Unavailable",
    "UnavailableKind",
]


class PortError(Exception):
    """Something outside could not do what was asked."""


class Unavailable(PortError):
    """The other side did not do it and may later; nothing was written."""

    def __init__(self, reason: str, kind: UnavailableKind = UnavailableKind.CONNECTION) -> None:
        super().__init__(reason)
        self.kind = kind


class CapacityExceeded(PortError):
    """No room now; ask again after `retry_after` (C54). Nothing was written.

    `source` names the bound that was hit, such as `pool` or `token_route`.
    """

    def __init__(self, reason: str, retry_after: timedelta, source: str) -> None:
        super().__init__(reason)
        self.retry_after = retry_after
        self.source = source


class FenceLost(PortError):
    """The attempt is over for this holder: superseded, cancelled or terminal.

    Nothing was written.
    """


class OutcomeUnknown(PortError):
    """The write may or may not have happened; read again and decide."""


class NotFound(PortError):
    """What was named does not exist."""


class Refused(PortError):
    """The other side understood and said no; asking again gives the same answer.

    `code` is for machines; the message is safe to show.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class ExecutorTokenUnavailable(PortError):
    """The token route did not answer usefully; an outage that may be waited out (C16–C18).

    `status` is the HTTP status, `None` when no response came.
    """

    def __init__(self, reason: str, status: int | None) -> None:
        super().__init__(reason)
        self.status = status


class ExecutorTokenCapacity(CapacityExceeded):
    """The token route has no room now (C16, Q36)."""


class SandboxCapacity(CapacityExceeded):
    """No sandbox may be created now under a limit or a provider's quota (C46)."""


class PreCodeUnavailable(PortError):
    """A dependency failed before any play code ran; the run may wait for it (C53).

    `dependency` and `cause` are persisted names; `detail` is for the log only.
    """

    def __init__(self, dependency: str, cause: str, detail: str | None = None) -> None:
        super().__init__(f"{dependency} is unavailable ({cause})")
        self.dependency = dependency
        self.cause = cause
        self.detail = detail


class MalformedDocument(PortError):
    """A document from outside has not the shape it must have; asking again changes nothing.

    `path` leads to the offending place, such as `suspension.startedAtMs`, and is `""` for the
    whole document; `reason` says what is expected there. Neither repeats the content.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'the document'} {reason}")
        self.path = path
        self.reason = reason
