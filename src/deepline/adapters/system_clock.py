"""The clock of the machine, slept on with Trio (Q50)."""

import time
from datetime import UTC, datetime, timedelta

import trio


class SystemClock:
    """Real time. Tests and simulation use a clock of `adapters.memory` instead."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, length: timedelta) -> None:
        await trio.sleep(max(0.0, length.total_seconds()))
