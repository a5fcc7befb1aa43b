"""What a dead sandbox left behind, kept before the sandbox is deleted (C44)."""

from datetime import datetime
from typing import Protocol

import attrs

from deepline.core.model.identity import AttemptKey
from deepline.core.model.json_value import JsonObject

DIAGNOSTIC_BYTES_MAX = 64 * 1024
"""How large a diagnostic may be, in bytes of compact JSON."""


@attrs.frozen(kw_only=True)
class CrashDiagnostic:
    """One capture: `diagnostic` is what the reader of the sandbox made of it."""

    diagnostic: JsonObject
    captured_at: datetime


class CrashDiagnostics(Protocol):
    """One diagnostic an attempt, written apart from the terminal that asked for it."""

    async def save(self, key: AttemptKey, diagnostic: JsonObject) -> bool:
        """Keep a diagnostic; the first one of an attempt stays. False if one was there.

        Raises `Refused` (`too_large`, or why it cannot be stored), `NotFound` without the attempt.
        """
        ...

    async def read(self, key: AttemptKey) -> CrashDiagnostic | None:
        """Read the attempt's diagnostic."""
        ...
