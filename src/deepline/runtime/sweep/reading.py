"""Reading one sandbox under a slot that is given back exactly once (C40, I34)."""

import attrs
import trio

from deepline.core.inspection import (
    Inspected,
    InspectionEmpty,
    InspectionEvidence,
    InspectionFailed,
)
from deepline.core.model.stale_runner import StaleRunner
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.sweep_read import ReadPhase, abandon_read, end_read, read_failed, take_slot
from deepline.runtime.events import emit
from deepline.runtime.supervision import text_of
from deepline.runtime.sweep.sweeping import Sweeping


@attrs.define(eq=False)
class SandboxRead:
    """One read, from the moment its slot is taken."""

    sweeping: Sweeping
    runner: StaleRunner
    suspension: DetachedSuspension
    evidence: InspectionEvidence = attrs.field(init=False, factory=InspectionEmpty)
    ended: trio.Event = attrs.field(init=False, factory=trio.Event)
    _phase: ReadPhase = attrs.field(init=False, default=ReadPhase.HOLDS_SLOT)
    _scope: trio.CancelScope = attrs.field(init=False, factory=trio.CancelScope)

    async def until(self, deadline: float) -> InspectionEvidence:
        """Begin the read and wait for it until `deadline`, by Trio's clock.

        One that takes longer goes on and keeps its slot; its answer then is no evidence any more.
        """
        self.sweeping.state = take_slot(self.sweeping.state, self.runner.provider)
        self.sweeping.reads.start_soon(self._carry)
        with trio.move_on_at(deadline):
            await self.ended.wait()
        return self.evidence if self.ended.is_set() else InspectionEmpty()

    async def _carry(self) -> None:
        try:
            async with trio.open_nursery() as watched:
                watched.start_soon(self._give_back_late)
                with self._scope:
                    self.evidence = await self._inspect()
                watched.cancel_scope.cancel(reason="the read has ended")
        finally:
            sweeping = self.sweeping
            sweeping.state, self._phase = end_read(
                sweeping.state, self.runner.provider, self._phase
            )
            self.ended.set()

    async def _inspect(self) -> InspectionEvidence:
        inspect = self.sweeping.ports.inspectors[self.runner.provider]
        try:
            return Inspected(await inspect(self.suspension))
        except Exception as error:  # noqa: BLE001 - however it fails, it is no evidence
            emit(
                self.sweeping.ports.telemetry,
                read_failed(self.runner, self.suspension.sandbox_id, text_of(error)),
            )
            return InspectionFailed()

    async def _give_back_late(self) -> None:
        """Give the slot back at the read's own deadline, and ask the read to end."""
        await trio.sleep(self.sweeping.settings.read_deadline.total_seconds())
        sweeping = self.sweeping
        sweeping.state, self._phase, told = abandon_read(
            sweeping.state, self.runner, self.suspension.sandbox_id, self._phase
        )
        for event in told.events:
            emit(sweeping.ports.telemetry, event)
        self._scope.cancel(reason="the read reached its deadline")
