"""Writing what was decided, for as long as the claim lasts (L01, F06).

A decision must not be lost because the store was away for a moment, and must not be held
beyond the lease either: whoever holds the claim's scope is cancelled by the lease keeper, and
then another worker decides again from what is durable. Every write given here is fenced or
idempotent, so an unknown outcome is answered by writing again: the fence tells.
"""

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import attrs

from deepline.core.backoff import Backoff
from deepline.ports.clock import Clock
from deepline.ports.errors import CapacityExceeded, OutcomeUnknown, Unavailable
from deepline.ports.telemetry import Telemetry
from deepline.runtime.supervision import CHANNEL, text_of

T = TypeVar("T")

PAUSES = Backoff(base=timedelta(milliseconds=100), longest=timedelta(seconds=5), jitter=0.5)
LOGGED_EVERY = 10


@attrs.frozen
class Persistence:
    """Repeats a write until the store answers it; only cancellation and refusals end it sooner."""

    clock: Clock
    telemetry: Telemetry
    chance: random.Random

    async def write(self, name: str, operation: Callable[[], Awaitable[T]]) -> T:
        """Do the operation. Raises what the operation raises beyond an outside that is away."""
        failures = 0
        while True:
            try:
                return await operation()
            except (Unavailable, OutcomeUnknown, CapacityExceeded) as error:
                pause = self._pause(error, failures)
                failures += 1
                if failures % LOGGED_EVERY == 1:
                    self.telemetry.warn(
                        CHANNEL, "write_repeated", operation=name, error=text_of(error)
                    )
                await self.clock.sleep(pause)

    def _pause(self, error: Exception, failures: int) -> timedelta:
        if isinstance(error, CapacityExceeded):
            return min(error.retry_after, PAUSES.longest)
        return PAUSES.delay(failures, self.chance.random())
