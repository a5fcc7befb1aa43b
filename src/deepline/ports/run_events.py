"""The run ledger itself: the events of a run as users read them (C26, gateway)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import attrs

from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.json_value import JsonObject
from deepline.core.model.ledger import Fact


@attrs.frozen(kw_only=True)
class RunEvent:
    """One event of a run; `cursor` grows within the run and resumes a reading."""

    cursor: int
    event_id: str
    kind: str
    payload: JsonObject
    occurred_at: datetime


@attrs.frozen(kw_only=True)
class LiveEvent:
    """An event a runner reports while it works: a log line, progress, a step."""

    event_id: str
    kind: str
    payload: JsonObject


class RunEvents(Protocol):
    """Events are applied once by id and never change."""

    async def apply(self, facts: Sequence[Fact]) -> None:
        """Apply facts of one run in order; those known already are passed over."""
        ...

    async def append(self, key: AttemptKey, events: Sequence[LiveEvent]) -> int:
        """Append a live attempt's events; returns how many were new. Raises `FenceLost`.

        Refuses (`Refused`, `event_quota`) beyond the bound of events a run may have.
        """
        ...

    async def read(self, run_id: RunId, *, after: int, limit: int) -> Sequence[RunEvent]:
        """Read events with a cursor above `after`, in order; at most `limit` (1–1000)."""
        ...
