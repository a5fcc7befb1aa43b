"""Doing a duty that one process at a time may do (DESIGN §4, C02 role b).

Whoever waits for a duty learns when its holder's lease ends and asks again then, so that a dead
holder is replaced within its lease. Whoever holds it is cut before its lease can end by the
store's clock: its own count begins when it asked and not when it was answered, and it leaves a
part of the lease unused, because no two clocks run alike.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import attrs
import trio

from deepline.ports.duties import Duties, DutyElsewhere
from deepline.ports.errors import PortError
from deepline.ports.telemetry import Telemetry
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL, text_of

LEASE = timedelta(seconds=30)
RENEWALS = 3
"""Renewals in a lease, so that one that fails is no loss yet."""
MARGIN = 0.1
"""Share of the lease that is kept as a distance to its end."""
RELEASE_S = 5.0


@attrs.define(eq=False, kw_only=True)
class DutyHolder:
    """Holds one duty for one owner, for as long as its lease can be renewed.

    `owner` is unique per process start.
    """

    duties: Duties
    duty: str
    owner: str
    telemetry: Telemetry
    lease: timedelta = LEASE
    held_since: float | None = attrs.field(init=False, default=None)
    """Trio time since which this process does the duty; `None` while it does not."""

    @property
    def is_held(self) -> bool:
        """True while this process does the duty."""
        return self.held_since is not None

    @property
    def _held_s(self) -> float:
        return self.lease.total_seconds() * (1 - MARGIN)

    async def run(self, stop: Stop, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work whenever the duty is ours, until it returns or `stop` ends the wait.

        Work whose lease is lost is cancelled and waits for the duty again. Raises what the work
        raises, and port errors of taking; in any case the duty is let go.
        """
        while not stop.requested:
            until = await self._take(stop)
            if until is not None and await self._do(until, work):
                return

    async def _take(self, stop: Stop) -> float | None:
        """Wait for the duty; until when it is ours at least, `None` when stopping."""
        while not stop.requested:
            asked = trio.current_time()
            answer = await self.duties.take(self.duty, self.owner, lease=self.lease)
            until = asked + self._held_s
            if not isinstance(answer, DutyElsewhere):
                if until > trio.current_time():
                    return until
                continue  # the answer came when its lease was over
            with stop.interrupts():
                await trio.sleep(min(answer.left, self.lease / RENEWALS).total_seconds())
        return None

    async def _do(self, until: float, work: Callable[[], Awaitable[None]]) -> bool:
        """Work while the lease lasts; True when the work is done, False when the lease is lost."""
        self._say("duty_taken")
        self.held_since, done = trio.current_time(), False
        try:
            async with trio.open_nursery() as nursery:
                nursery.cancel_scope.deadline = until
                nursery.start_soon(self._renew, nursery.cancel_scope)
                await work()
                done = True
                nursery.cancel_scope.cancel(reason="the duty is done")
        finally:
            self.held_since = None
            with trio.move_on_after(RELEASE_S, shield=True):
                await self._release()
        if not done:
            self._say("duty_lost")
        return done

    async def _renew(self, scope: trio.CancelScope) -> None:
        while True:
            await trio.sleep(self.lease.total_seconds() / RENEWALS)
            asked = trio.current_time()
            try:
                kept = await self.duties.renew(self.duty, self.owner, lease=self.lease)
            except PortError as error:
                # The lease still lasts; what was lost meanwhile the next answer says.
                self.telemetry.warn(
                    CHANNEL, "duty_renewal_failed", controller=self.duty, error=text_of(error)
                )
                continue
            if not kept:
                scope.cancel(reason="another process holds the duty")
                return
            scope.deadline = asked + self._held_s

    async def _release(self) -> None:
        try:
            await self.duties.release(self.duty, self.owner)
        except PortError as error:
            self.telemetry.warn(
                CHANNEL, "duty_release_failed", controller=self.duty, error=text_of(error)
            )

    def _say(self, name: str) -> None:
        self.telemetry.info(CHANNEL, name, duty=self.duty, owner=self.owner)
