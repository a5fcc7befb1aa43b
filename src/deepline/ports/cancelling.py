"""Ending a run because somebody asks for it, by whoever serves the request (C09, C10)."""

from typing import Protocol

from deepline.core.model.identity import RunId
from deepline.core.model.why import Why
from deepline.ports.terminals import CancelOutcome


class Cancelling(Protocol):
    """Cancels. A store's `Terminals` is one that leaves every sandbox to workers."""

    async def cancel(self, run_id: RunId, *, by: str, reason: str, why: Why) -> CancelOutcome:
        """End the run as cancelled if it has not ended; what it made is owed its deletion.

        Raises port errors of the store; `OutcomeUnknown` when the run may have been ended.
        """
        ...
