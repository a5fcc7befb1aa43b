"""Virtual time: it stands still while anything can run and jumps to the next thing that is due.

Trio asks its clock how long to sleep only when no task can run. That is the moment to jump, so an
hour of waiting costs as little as a second. Besides Trio's deadlines the clock keeps a heap of
its own for plain naps, which need no cancel scope and cost a third of `trio.sleep`.
"""

import heapq
from datetime import UTC, datetime, timedelta

import attrs
import trio

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock(trio.abc.Clock):
    """The clock of one simulated world; seconds from 0.0.

    A run on it must hold at least one deadline or nap at any time, or it waits for ever.
    """

    def __init__(self) -> None:
        self._now_s = 0.0
        self._naps: list[tuple[float, int, list[trio.lowlevel.Task]]] = []
        self._napped = 0

    def start_clock(self) -> None:
        """Nothing runs by itself here."""

    def current_time(self) -> float:
        """Virtual seconds since the world began."""
        return self._now_s

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Jump to what is due next, wake the naps that end there, and never sleep."""
        naps = self._naps
        while naps and not naps[0][2]:
            heapq.heappop(naps)
        due = min(deadline, naps[0][0]) if naps else deadline
        if due == float("inf"):
            return due
        self._now_s = max(self._now_s, due)
        while naps and naps[0][0] <= self._now_s:
            sleeper = heapq.heappop(naps)[2]
            if sleeper:
                trio.lowlevel.reschedule(sleeper.pop())
        return 0.0

    async def nap(self, seconds: float) -> None:
        """Sleep in virtual time; may be cancelled at any moment."""
        if seconds <= 0:
            await trio.lowlevel.checkpoint()
            return
        sleeper = [trio.lowlevel.current_task()]
        self._napped += 1
        heapq.heappush(self._naps, (self._now_s + seconds, self._napped, sleeper))

        def abort(_: object) -> trio.lowlevel.Abort:
            sleeper.clear()
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def nap_until(self, at: float) -> None:
        """Sleep until an instant of virtual time; one that has passed is a checkpoint."""
        await self.nap(at - self._now_s)


@attrs.frozen
class ProcessClock:
    """The `Clock` port of one process: the world's time, put off by what its wall clock is wrong.

    `drift` is how many seconds the wall clock gains in each second. Lengths are measured rightly on
    every machine; only what it takes the date to be may be wrong.
    """

    virtual: VirtualClock
    offset: timedelta = timedelta(0)
    drift: float = 0.0

    def now(self) -> datetime:
        """What this process believes the time is."""
        virtual_s = self.virtual.current_time()
        return EPOCH + self.offset + timedelta(seconds=virtual_s + virtual_s * self.drift)

    def seconds_of(self, at: datetime) -> float:
        """The virtual time at which this clock shows an instant."""
        return (at - EPOCH - self.offset).total_seconds() / (1.0 + self.drift)

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self.virtual.current_time()

    async def sleep(self, length: timedelta) -> None:
        """Nap."""
        await self.virtual.nap(length.total_seconds())


def seconds_of(at: datetime) -> float:
    """An instant as seconds since the first one, for people to read."""
    return (at - EPOCH).total_seconds()
