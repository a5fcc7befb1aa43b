"""Facts that the ledger refused for good, for an operator to see and to send again (C26).

A dead letter holds up every fact of its run behind it, so a run has at most one.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import attrs

from deepline.core.model.identity import OrgId, RunId


@attrs.frozen(kw_only=True)
class DeadLetter:
    """One fact that is not delivered any more. `error` is what the last refusal said."""

    run_id: RunId
    org_id: OrgId
    seq: int
    event_id: str
    kind: str
    attempts: int
    died_at: datetime
    error: str | None


class DeadLetters(Protocol):
    """The operator's side of the outbox."""

    async def list(
        self, *, run_id: RunId | None = None, after: RunId | None = None, limit: int = 50
    ) -> Sequence[DeadLetter]:
        """Dead letters in order of run id, of one run or of all; at most `limit` (1–500)."""
        ...

    async def revive(self, *, run_id: RunId | None, by: str, limit: int = 1_000) -> int:
        """Make dead letters due now with a clean count, of one run or of all.

        Answers how many; ask again until it is 0. `by` is written down with each run.
        """
        ...
