"""Integration events in memory: the row first, the wake with it (C11, I23)."""

from collections.abc import Iterator

import attrs

from deepline.adapters.memory.rows import RunRow, SignalRow
from deepline.adapters.memory.world import Port, World
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.identity import RunId
from deepline.core.model.suspension import EventSuspension
from deepline.ports.errors import NotFound, Refused
from deepline.ports.signals import Signal


def has_signal_for(world: World, run_id: RunId, event_key: str, boundary_id: str) -> bool:
    """Is a signal stored that this wait would take?"""
    return next(_takeable(world, run_id, event_key, boundary_id), None) is not None


def _takeable(world: World, run_id: RunId, event_key: str, boundary_id: str) -> Iterator[SignalRow]:
    """Signals this wait may take: the one it claimed already, then the oldest unclaimed."""
    rows = [row for row in world.signals.get(run_id, ()) if row.event_key == event_key]
    yield from (row for row in rows if row.claimed_boundary_id == boundary_id)
    for row in rows:
        if row.claimed_at is None and row.boundary_id in (None, boundary_id):
            yield row


@attrs.define(eq=False)
class MemorySignals(Port):
    """Signals wait here until their run claims them; a run may have `quota` unclaimed ones."""

    quota: int = 1_000

    async def put(self, run_id: RunId, signal: Signal, *, signal_id: str | None) -> bool:
        """Store the signal and wake the run, in one step."""
        return await self._step("signals.put", lambda: self._put(run_id, signal, signal_id))

    def _put(self, run_id: RunId, signal: Signal, signal_id: str | None) -> bool:
        run = self.world.runs.get(run_id)
        if run is None:
            raise NotFound(f"run {run_id} does not exist")
        rows = self.world.signals.setdefault(run_id, [])
        if any(_same(row, signal, signal_id) for row in rows):
            return False
        if run.ended:
            raise Refused("run_ended", f"run {run_id} is {run.status.value}")
        if sum(row.claimed_at is None for row in rows) >= self.quota:
            raise Refused("signal_quota", f"a run may have {self.quota} unclaimed signals")
        rows.append(
            SignalRow(
                signal_id=signal_id or self.world.new_secret(),
                event_key=signal.event_key,
                boundary_id=signal.boundary_id,
                payload=signal.payload,
            )
        )
        if self._is_awaited(run):
            self.world.wake_run(run)
        return True

    def _is_awaited(self, run: RunRow) -> bool:
        """Does the run wait for a signal that is here now?"""
        attempt = self.world.newest_attempt(run)
        if attempt is None or attempt.status is not AttemptStatus.WAITING:
            return False
        waiting_for = attempt.suspension
        return isinstance(waiting_for, EventSuspension) and has_signal_for(
            self.world, run.run_id, waiting_for.event_key, waiting_for.boundary_id
        )

    async def take(self, run_id: RunId, event_key: str, boundary_id: str) -> Signal | None:
        """Claim the oldest unclaimed signal for this wait."""

        def effect() -> Signal | None:
            row = next(_takeable(self.world, run_id, event_key, boundary_id), None)
            if row is None:
                return None
            if row.claimed_at is None:
                row.claimed_boundary_id, row.claimed_at = boundary_id, self.world.now()
            return Signal(event_key=row.event_key, boundary_id=row.boundary_id, payload=row.payload)

        return await self._step("signals.take", effect)


def _same(row: SignalRow, signal: Signal, signal_id: str | None) -> bool:
    """Named signals are the same by name; others by what they say, while unclaimed (Q10)."""
    if signal_id is not None:
        return row.signal_id == signal_id
    return row.claimed_at is None and (row.event_key, row.boundary_id, row.payload) == (
        signal.event_key,
        signal.boundary_id,
        signal.payload,
    )
