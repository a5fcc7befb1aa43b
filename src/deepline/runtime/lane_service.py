"""Serving one lane: its claim loop, and the runs that it brings, until stopped (C03, C56).

A worker serves its own lane so, and each lane that it adopts: with places of the lane's own, under
the worker's one lease keeper.
"""

import random
from collections.abc import Sequence

import attrs
import trio

from deepline.core.model.claim import Prepared
from deepline.core.model.identity import Lane
from deepline.runtime.claim_loop import ClaimLoop, ClaimSettings
from deepline.runtime.claim_work import ClaimWork
from deepline.runtime.context import Context
from deepline.runtime.lease_keeper import LeaseKeeper
from deepline.runtime.slots import Slots
from deepline.runtime.stop import Stop


@attrs.define(eq=False)
class LaneService:
    """Serves one lane with places of its own. `org_limit` 0 lets no queued run begin."""

    context: Context
    keeper: LeaseKeeper
    lane: Lane
    places: Slots
    org_limit: int
    placement_keys: Sequence[str]
    chance: random.Random
    claims: ClaimLoop = attrs.field(init=False)
    _work: ClaimWork = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Wire the loop and the work."""
        ports, limits = self.context.ports, self.context.limits
        self._work = ClaimWork(attrs.evolve(self.context, slots=self.places))
        self.claims = ClaimLoop(
            attempts=ports.attempts,
            engine=ports.engine,
            telemetry=ports.telemetry,
            chance=self.chance,
            slots=self.places,
            settings=ClaimSettings(
                lane=self.lane,
                worker=self.context.worker,
                slots=self.places.total,
                org_limit=self.org_limit,
                lease=limits.claim_lease,
                safety_poll=limits.safety_poll,
                placement_keys=self.placement_keys,
            ),
        )

    @property
    def in_hand(self) -> int:
        """How many runs of the lane are in hand."""
        return self.places.in_hand

    def wake(self) -> None:
        """Look for work now."""
        self.places.wake()

    def admit_up_to(self, org_limit: int) -> None:
        """From the next claim on admit so many runs of one organisation; 0 admits none."""
        if org_limit != self.claims.settings.org_limit:
            self.claims.settings = attrs.evolve(self.claims.settings, org_limit=org_limit)
            self.wake()

    async def serve(self, stop: Stop, *, beside: trio.CancelScope | None = None) -> None:
        """Claim until stopped, then let the runs in hand drain; those that take longer are cut.

        What goes on `beside` has the same limit.
        """
        async with trio.open_nursery() as runs:

            def start(prepared: Prepared, claimed_at: float) -> None:
                runs.start_soon(self._run_one, prepared, claimed_at)

            await self.claims.run(stop, start)
            drain_s = self.context.limits.drain.total_seconds()
            runs.cancel_scope.deadline = trio.current_time() + drain_s
            if beside is not None:
                beside.deadline = runs.cancel_scope.deadline

    async def _run_one(self, prepared: Prepared, claimed_at: float) -> None:
        try:
            with self.keeper.hold(prepared.claim, claimed_at):
                await self._work.work(prepared)
        finally:
            self.places.leave(prepared.claim)
