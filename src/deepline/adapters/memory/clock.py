"""Clocks without real time: Trio's own time as wall time, and a shift for tests (Q50)."""

from datetime import UTC, datetime, timedelta

import attrs
import trio

from deepline.ports.clock import Clock

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@attrs.frozen
class TrioTimeClock:
    """Wall time counted from `epoch` by Trio's clock, so that a virtual one drives it all."""

    epoch: datetime = EPOCH

    def now(self) -> datetime:
        """Epoch plus Trio's time, at microsecond precision."""
        return self.epoch + timedelta(seconds=trio.current_time())

    def monotonic(self) -> float:
        """Trio's time itself."""
        return trio.current_time()

    async def sleep(self, length: timedelta) -> None:
        """Sleep in Trio's time."""
        await trio.sleep(max(0.0, length.total_seconds()))


@attrs.define
class ShiftedClock:
    """Another clock put forward by a shift that only grows; sleeps take the other clock's time."""

    base: Clock
    shift: timedelta = timedelta(0)

    def advance(self, length: timedelta) -> None:
        """Put the clock forward; `length` must not be negative."""
        if length < timedelta(0):
            raise ValueError("a clock is only put forward")
        self.shift += length

    def now(self) -> datetime:
        """The other clock's time plus the shift."""
        return self.base.now() + self.shift

    def monotonic(self) -> float:
        """The other clock's monotonic time plus the shift."""
        return self.base.monotonic() + self.shift.total_seconds()

    async def sleep(self, length: timedelta) -> None:
        """Sleep as the other clock does."""
        await self.base.sleep(length)


@attrs.define
class TickingClock:
    """Another clock on which no two readings are equal: each is at least a microsecond later.

    A store on a real database never sees one instant twice; this keeps its ties out of a fake.
    """

    base: Clock
    _last: datetime | None = None

    def now(self) -> datetime:
        """The other clock's time, or the last reading and a microsecond."""
        reading = self.base.now()
        if self._last is not None and reading <= self._last:
            reading = self._last + timedelta(microseconds=1)
        self._last = reading
        return reading

    def monotonic(self) -> float:
        """The other clock's monotonic time."""
        return self.base.monotonic()

    async def sleep(self, length: timedelta) -> None:
        """Sleep as the other clock does."""
        await self.base.sleep(length)
