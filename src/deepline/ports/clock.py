"""The one way in for time (Q50)."""

from datetime import datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Wall time for decisions, monotonic time for durations, and sleep.

    Durable comparisons use the store's own clock; this one serves in-process decisions.
    """

    def now(self) -> datetime:
        """Say what time it is: aware UTC, microsecond precision."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards; only differences mean anything."""
        ...

    async def sleep(self, length: timedelta) -> None:
        """Wait; may be cancelled at any moment. A length of nothing or less is a checkpoint."""
        ...
