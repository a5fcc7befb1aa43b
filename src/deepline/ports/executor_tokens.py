"""Short-lived executor tokens, minted by the launch-pinned gateway for one attempt (C16)."""

from datetime import datetime
from typing import Protocol

import attrs

from deepline.core.model.identity import AttemptRef
from deepline.core.model.launch import Launch


def _masked(_: str) -> str:
    return "***"


@attrs.frozen
class ExecutorToken:
    """A bearer token of one attempt. Never shown by `repr` or `str`."""

    value: str = attrs.field(repr=_masked)
    expires_at: datetime | None = None

    def __str__(self) -> str:
        return "***"


class ExecutorTokens(Protocol):
    """Proves a live attempt and gets its token; holds no signing key (I45)."""

    async def mint(self, launch: Launch, ref: AttemptRef) -> ExecutorToken:
        """Mint a token for this attempt.

        Raises `ExecutorTokenUnavailable` (may be waited out), `ExecutorTokenCapacity`, or
        `Refused` (deterministic: spends an engine attempt). The whole request has one budget of
        30 s, headers and body.
        """
        ...
