"""Integration events for waiting runs: durable row first, wake second (C11, I23)."""

from typing import Protocol

from deepline.core.model.identity import RunId
from deepline.core.model.signal import Signal

__all__ = ["Signal", "Signals"]


class Signals(Protocol):
    """Signals wait in the store until their run claims them."""

    async def put(self, run_id: RunId, signal: Signal, *, signal_id: str | None) -> bool:
        """Store the signal and wake the run, in one commit; False if it was there already (Q10).

        Raises `NotFound` for an unknown run and `Refused` (`run_ended`) for one that has ended.
        """
        ...

    async def take(self, run_id: RunId, event_key: str, boundary_id: str) -> Signal | None:
        """Claim the oldest unclaimed signal for this wait; one claimed already is given again."""
        ...
