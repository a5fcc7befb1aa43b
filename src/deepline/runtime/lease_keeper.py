"""Keeping the claims of runs in hand alive, and cutting the runs whose claim is gone (ENGINE §3.3).

A run's scope carries its lease as a deadline: every extension that succeeds moves it, measured
from when the extension was sent, so a store that cannot be reached ends the work before another
worker can have taken it over. The keeper outlives the runs: beats go on until the last one is
settled (F11).

A claim that the store no longer has may have been ended by the work's own last write, whose answer
is still on its way. So such work has a moment to end by itself. Every write of it is fenced, and
the moment costs nothing where the claim was truly lost.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import attrs
import trio

from deepline.core.model.claim import Claim
from deepline.core.model.identity import RunId
from deepline.ports.engine import Engine
from deepline.ports.errors import PortError
from deepline.ports.telemetry import Telemetry
from deepline.runtime.supervision import CHANNEL, text_of

BEATS_PER_LEASE = 3
MARGIN = 0.1
"""Share of the lease that is kept as a distance to its end."""
ANSWER_S = 1.0
"""How long the answer to a last write may be on its way when its claim is found gone."""


@attrs.define(eq=False)
class Held:
    """One claim in hand, with the scope of the work done under it."""

    claim: Claim
    scope: trio.CancelScope
    since: float
    """Trio time of the claim."""
    gone: bool = False
    """True once the store did not have the claim any more."""
    cut: str | None = None
    """Why the work was cut, once it was: `lease lost`, `cancelled`, `stopping`."""


@attrs.define(eq=False)
class LeaseKeeper:
    """Extends every held claim in one step, three times a lease."""

    engine: Engine
    lease: timedelta
    telemetry: Telemetry
    _held: dict[tuple[str, str], Held] = attrs.field(init=False, factory=dict)

    @contextmanager
    def hold(self, claim: Claim, claimed_at: float) -> Iterator[Held]:
        """Work under a claim made at `claimed_at` (Trio time), cut when the claim is lost."""
        with trio.CancelScope(deadline=self._deadline(claimed_at)) as scope:
            held = Held(claim, scope, claimed_at)
            key = (claim.engine_run_id, claim.owner)
            self._held[key] = held
            try:
                yield held
            finally:
                del self._held[key]
        if scope.cancelled_caught:
            self.telemetry.warn(
                CHANNEL, "run_cut", runId=claim.run_id, reason=held.cut or "lease lost"
            )

    def cut(self, run_id: RunId, reason: str) -> None:
        """End the work on a run at once, whoever asks, saying why."""
        for held in tuple(self._held.values()):
            if held.claim.run_id == run_id:
                self._cut(held, reason)

    @property
    def held(self) -> int:
        """How many claims are in hand."""
        return len(self._held)

    @property
    def oldest_held_s(self) -> float:
        """How long ago the oldest claim in hand was made; 0 with none in hand."""
        now = trio.current_time()
        return max((now - held.since for held in self._held.values()), default=0.0)

    async def run(self) -> None:
        """Extend until cancelled. A failed extension is tried again sooner than the next beat."""
        period_s = self.lease.total_seconds() / BEATS_PER_LEASE
        pause_s = period_s
        due_at = trio.current_time() + period_s
        while True:
            await trio.sleep(pause_s)
            kept = await self._extend_all(due_at)
            pause_s = period_s if kept else period_s / 4
            if kept:
                due_at = trio.current_time() + period_s

    async def _extend_all(self, due_at: float) -> bool:
        """Extend what is held by a beat that was due then; how late it took effect is its lag."""
        held = tuple(self._held.values())
        if not held:
            return True
        sent_at = trio.current_time()
        try:
            lost = await self.engine.extend([one.claim for one in held], self.lease)
        except PortError as error:
            self.telemetry.warn(CHANNEL, "lease_extension_failed", error=text_of(error))
            return False
        gone = {(claim.engine_run_id, claim.owner) for claim in lost}
        for one in held:
            if (one.claim.engine_run_id, one.claim.owner) in gone:
                one.scope.deadline = min(one.scope.deadline, trio.current_time() + ANSWER_S)
                one.gone = True
            elif not one.gone:
                one.scope.deadline = max(one.scope.deadline, self._deadline(sent_at))
        now = trio.current_time()
        self.telemetry.observe("lease_extension_s", now - sent_at)
        self.telemetry.observe("heartbeat_lag_s", max(0.0, now - due_at))
        return True

    def _deadline(self, since: float) -> float:
        return since + self.lease.total_seconds() * (1 - MARGIN)

    @staticmethod
    def _cut(held: Held, reason: str) -> None:
        if held.cut is None:
            held.cut = reason
            held.scope.cancel(reason=reason)
