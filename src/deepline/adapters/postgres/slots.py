"""Slots that are handed on first come, first served, with a bound on who waits and how long (C59).

A loan is made for every statement, so waiting for one has to cost little. A cancel scope for each
waiter would take a good part of what a short statement costs. As the queue is in order of
arrival, only its head can be the next to have waited too long; so one task keeps the time for all
of them. It is a system task, because a nursery of the pool's own would wrap every error that
leaves the pool's block into a group; it ends by itself when nobody waits.
"""

from collections import OrderedDict

import outcome
import trio

_GRANTED, _REFUSED = True, False


class Slots:
    """So many may hold one at a time."""

    def __init__(self, size: int, *, waiters_max: int, wait_s: float) -> None:
        self._free = size
        self._waiters_max = waiters_max
        self._wait_s = wait_s
        self._deadlines: OrderedDict[trio.lowlevel.Task, float] = OrderedDict()
        self._is_timed = False

    @property
    def waiting(self) -> int:
        """How many wait at this moment."""
        return len(self._deadlines)

    async def acquire(self) -> bool:
        """Take a slot. False when too many wait already, or after waiting as long as one may."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._free:
            self._free -= 1
            return True
        if len(self._deadlines) >= self._waiters_max:
            return False
        task = trio.lowlevel.current_task()
        self._deadlines[task] = trio.current_time() + self._wait_s
        if not self._is_timed:
            self._is_timed = True
            trio.lowlevel.spawn_system_task(self._refuse_when_late)

        def leave(_: object) -> trio.lowlevel.Abort:
            del self._deadlines[task]
            return trio.lowlevel.Abort.SUCCEEDED

        return bool(await trio.lowlevel.wait_task_rescheduled(leave))

    def release(self) -> None:
        """Hand the slot to whoever waits longest, or leave it free."""
        if self._deadlines:
            task, _ = self._deadlines.popitem(last=False)
            trio.lowlevel.reschedule(task, outcome.Value(_GRANTED))
        else:
            self._free += 1

    async def _refuse_when_late(self) -> None:
        try:
            while self._deadlines:
                task = next(iter(self._deadlines))
                await trio.sleep_until(self._deadlines[task])
                # Whoever is the head by now may have come later, or be the same.
                self._refuse_the_late()
        finally:
            self._is_timed = False

    def _refuse_the_late(self) -> None:
        now = trio.current_time()
        while self._deadlines:
            task, deadline = next(iter(self._deadlines.items()))
            if deadline > now:
                break
            del self._deadlines[task]
            trio.lowlevel.reschedule(task, outcome.Value(_REFUSED))
