"""Who is who: runs, organisations, attempts and the fence that guards every write (C12, C20)."""

from typing import NewType

import attrs

RunId = NewType("RunId", str)
OrgId = NewType("OrgId", str)
ReleaseId = NewType("ReleaseId", str)
Lane = NewType("Lane", str)
"""An engine queue; one per release. A run rides one lane for its whole life (C05)."""

MAX_ID_LENGTH = 200


def _masked(_: str) -> str:
    return "***"


@attrs.frozen
class LeaseToken:
    """The secret of one attempt. Compares by value; never shown by `repr` or `str`."""

    value: str = attrs.field(repr=_masked)

    def __str__(self) -> str:
        return "***"


@attrs.frozen
class AttemptRef:
    """The fence: a write succeeds only while the row is at this attempt with this lease."""

    run_id: RunId
    attempt: int
    lease_token: LeaseToken


@attrs.frozen
class AttemptKey:
    """An attempt named without its secret, for reads, logs and the runner's own calls."""

    run_id: RunId
    attempt: int
