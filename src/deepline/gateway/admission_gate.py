"""How many submits may be inside the store at once, and how many may wait for it (C07.3, Q35)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import attrs
import trio

from deepline.ports.clock import Clock
from deepline.ports.errors import CapacityExceeded


@attrs.frozen(kw_only=True)
class Permit:
    """What getting in took: how many were waiting on arrival, and for how long this one did."""

    queue_depth: int
    wait_ms: int


class AdmissionGate:
    """Permits for one store, first come first served, with a bounded queue and a bounded wait."""

    def __init__(
        self, *, permits: int, queue: int, wait: timedelta, retry_after: timedelta, clock: Clock
    ) -> None:
        self._limiter = trio.CapacityLimiter(permits)
        self._queue = queue
        self._wait = wait
        self._retry_after = retry_after
        self._clock = clock

    @asynccontextmanager
    async def permit(self) -> AsyncIterator[Permit]:
        """Hold a permit for the block. Raises `CapacityExceeded`; then nothing was done."""
        waiting = self._limiter.statistics().tasks_waiting
        if waiting >= self._queue:
            raise CapacityExceeded(
                "too many submits are waiting", self._retry_after, "submit_queue"
            )
        asked_at = self._clock.monotonic()
        with trio.move_on_after(self._wait.total_seconds()) as waited:
            await self._limiter.acquire()
        if waited.cancelled_caught:
            raise CapacityExceeded("no submit permit in time", self._retry_after, "submit_wait")
        try:
            waited_s = self._clock.monotonic() - asked_at
            yield Permit(queue_depth=waiting, wait_ms=round(waited_s * 1000))
        finally:
            self._limiter.release()
