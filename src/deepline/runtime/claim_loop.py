"""Claiming due work while slots are free, woken by hints, bounded by a safety poll (C12, Q38)."""

import random
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta

import attrs
import trio

from deepline.core.backoff import Backoff
from deepline.core.model.claim import Prepared
from deepline.core.model.identity import Lane
from deepline.ports.attempts import Attempts, ClaimRequest
from deepline.ports.engine import Engine
from deepline.ports.errors import PortError
from deepline.ports.telemetry import Telemetry
from deepline.runtime.slots import Slots
from deepline.runtime.stop import Stop
from deepline.runtime.supervision import CHANNEL, text_of

PAUSES = Backoff(base=timedelta(milliseconds=200), longest=timedelta(seconds=5), jitter=0.5)


@attrs.frozen(kw_only=True)
class ClaimSettings:
    """What a worker claims: `slots` runs at most at a time, `org_limit` of one organisation."""

    lane: Lane
    worker: str
    slots: int
    org_limit: int
    lease: timedelta
    safety_poll: timedelta
    placement_keys: Sequence[str]


@attrs.define(eq=False)
class ClaimLoop:
    """One loop per worker. Survives an unreachable store: it says so, waits, and asks again."""

    attempts: Attempts
    engine: Engine
    telemetry: Telemetry
    settings: ClaimSettings
    chance: random.Random
    slots: Slots
    last_poll_at: float | None = attrs.field(init=False, default=None)
    """Trio time of the last claim the store answered: whether work is found at all (F34)."""
    last_turn_at: float | None = attrs.field(init=False, default=None)
    """Trio time of the last turn of the loop, answered or not: whether the loop lives (F34)."""

    async def run(self, stop: Stop, start: Callable[[Prepared, float], None]) -> None:
        """Claim until stopped, handing each prepared run with its claim's time to `start`."""
        failures = 0
        while not stop.requested:
            self.last_turn_at = trio.current_time()
            if self.slots.free <= 0:
                with stop.interrupts():
                    await self.slots.woken(self.settings.safety_poll.total_seconds())
                continue
            try:
                pause_s = await self._claim_once(start)
            except PortError as error:
                pause_s = PAUSES.delay(failures, self.chance.random()).total_seconds()
                failures += 1
                self.telemetry.warn(CHANNEL, "claim_failed", error=text_of(error), pauseS=pause_s)
                with stop.interrupts():
                    await trio.sleep(pause_s)
                continue
            failures = 0
            if pause_s > 0 and not stop.requested:
                with stop.interrupts():
                    await self.slots.woken(pause_s)

    async def _claim_once(self, start: Callable[[Prepared, float], None]) -> float:
        """Claim what fits; answers how long to wait, in seconds, if no hint comes."""
        quantity = self.slots.free
        sent_at = trio.current_time()
        prepared = await self.attempts.claim(
            ClaimRequest(
                lane=self.settings.lane,
                owner=self._owner(),
                worker=self.settings.worker,
                lease=self.settings.lease,
                quantity=quantity,
                org_limit=self.settings.org_limit,
                placement_keys=self.settings.placement_keys,
            )
        )
        self.last_poll_at = trio.current_time()
        for one in prepared:
            self.slots.take(one.claim)
            start(one, sent_at)
        if prepared:
            return 0.0
        safety_s = self.settings.safety_poll.total_seconds()
        due = await self.engine.next_due(self.settings.lane)
        if due is None:
            return safety_s
        # A claim that swept an expired lease makes its run due a moment later; asking again in
        # a tight loop would not bring it sooner.
        return min(safety_s, max(due.total_seconds(), 0.005))

    def _owner(self) -> str:
        return f"{self.settings.worker}:{uuid.UUID(int=self.chance.getrandbits(128), version=4)}"
