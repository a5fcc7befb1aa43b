"""Slots that are handed on first come, first served, with a bound on who waits and how long (C59).

Like a semaphore, but it neither yields to the scheduler nor raises in between while there is a
free slot: a loan is made for every statement.
"""

import trio


class Slots:
    """So many may hold one at a time."""

    def __init__(self, size: int, *, waiters_max: int, wait_s: float) -> None:
        self._free = size
        self._waiting = trio.lowlevel.ParkingLot()
        self._waiters_max = waiters_max
        self._wait_s = wait_s

    @property
    def waiting(self) -> int:
        """How many wait at this moment."""
        return len(self._waiting)

    async def acquire(self) -> bool:
        """Take a slot. False when too many wait already, or after waiting as long as one may."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._free:
            self._free -= 1
            return True
        if len(self._waiting) >= self._waiters_max:
            return False
        with trio.move_on_after(self._wait_s):
            await self._waiting.park()  # whoever releases one hands it over
            return True
        return False

    def release(self) -> None:
        """Hand the slot to whoever waits longest, or leave it free."""
        if self._waiting:
            self._waiting.unpark()
        else:
            self._free += 1
