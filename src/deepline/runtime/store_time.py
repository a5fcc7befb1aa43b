"""The store's clock as a worker may know it: never ahead, whatever its own says (Q50, F43)."""

from datetime import datetime, timedelta

import attrs

from deepline.core.model.claim import Claim
from deepline.ports.clock import Clock


@attrs.frozen
class StoreTime:
    """An instant of the store with the monotonic time at which it was learnt."""

    learnt: datetime
    at: float
    clock: Clock

    @classmethod
    def of(cls, claim: Claim, clock: Clock) -> "StoreTime":
        """Start from the instant at which the store made a claim, just received."""
        return cls(claim.claimed_at, clock.monotonic(), clock)

    def now(self) -> datetime:
        """The store's time by now; behind by at most the way the answer took."""
        return self.learnt + timedelta(seconds=self.clock.monotonic() - self.at)
