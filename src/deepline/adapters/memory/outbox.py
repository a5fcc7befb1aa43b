"""The run-ledger outbox in memory: facts in order, one dispatcher a run (C26, Q34)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from deepline.adapters.memory.rows import OutboxLeaseRow, OutboxRow
from deepline.adapters.memory.world import Port
from deepline.core.model.identity import RunId
from deepline.core.model.ledger import CREATED, TERMINAL_KINDS
from deepline.ports.outbox import OutboxLease


class MemoryOutbox(Port):
    """Each run's facts; one that is put off, or is a dead letter, holds up what follows it."""

    async def lease_due(
        self, owner: str, *, runs: int, lease: timedelta, facts_per_run: int
    ) -> Sequence[OutboxLease]:
        """Lease up to `runs` runs with facts due, oldest first."""

        def effect() -> Sequence[OutboxLease]:
            now = self.world.now()
            due = sorted(
                (first.due_at, run_id)
                for run_id in self.world.undelivered
                if (first := self._first_due(run_id, now)) is not None
            )
            leases = (
                self._lease(run_id, owner, now, lease, facts_per_run) for _, run_id in due[:runs]
            )
            return [leased for leased in leases if leased is not None]

        return await self._step("outbox.lease_due", effect)

    async def lease_run(
        self, run_id: RunId, owner: str, *, lease: timedelta, facts_per_run: int
    ) -> OutboxLease | None:
        """Lease one run's due facts."""

        def effect() -> OutboxLease | None:
            return self._lease(run_id, owner, self.world.now(), lease, facts_per_run)

        return await self._step("outbox.lease_run", effect)

    def _undelivered(self, run_id: RunId) -> list[OutboxRow]:
        return [row for row in self.world.outbox.get(run_id, ()) if row.delivered_at is None]

    def _open(self, run_id: RunId) -> list[OutboxRow]:
        return [row for row in self.world.outbox.get(run_id, ()) if row.open]

    def _first_due(self, run_id: RunId, now: datetime) -> OutboxRow | None:
        """The run's next fact, if it is due, nobody holds the run and its launch is known."""
        held = self.world.outbox_leases.get(run_id)
        if run_id not in self.world.launches or (held is not None and held.expires_at > now):
            return None
        first = next(iter(self._undelivered(run_id)), None)
        return first if first is not None and first.is_due(now) else None

    def _lease(
        self, run_id: RunId, owner: str, now: datetime, lease: timedelta, facts_per_run: int
    ) -> OutboxLease | None:
        first = self._first_due(run_id, now)
        if first is None:
            return None
        rows: list[OutboxRow] = []
        for row in self._undelivered(run_id)[:facts_per_run]:
            if not row.is_due(now):
                break
            rows.append(row)
        self.world.outbox_leases[run_id] = OutboxLeaseRow(owner, now + lease)
        return OutboxLease(
            run_id=run_id,
            owner=owner,
            launch=self.world.launches[run_id].launch,
            facts=tuple(row.fact for row in rows),
            attempts=first.attempts,
        )

    def _release(self, lease: OutboxLease) -> bool:
        """Give the lease back; False when it is not this dispatcher's any more."""
        held = self.world.outbox_leases.get(lease.run_id)
        if held is None or held.owner != lease.owner:
            return False
        del self.world.outbox_leases[lease.run_id]
        return True

    async def delivered(self, lease: OutboxLease, *, through_seq: int) -> bool:
        """Mark facts up to `through_seq` as applied; releases the lease."""

        def effect() -> bool:
            if not self._release(lease):
                return False
            now = self.world.now()
            for row in self._open(lease.run_id):
                if row.fact.seq <= through_seq:
                    row.delivered_at = now
                    if row.fact.kind == CREATED:
                        self._acknowledge_created(lease.run_id, now)
                    elif row.fact.kind in TERMINAL_KINDS:
                        self._let_go(lease.run_id)
            self._forget_if_done(lease.run_id)
            return True

        return await self._step("outbox.delivered", effect)

    def _acknowledge_created(self, run_id: RunId, now: datetime) -> None:
        run = self.world.runs.get(run_id)
        if run is not None and run.created_projected_at is None:
            run.created_projected_at = now
            self.world.wake_run(run)

    def _let_go(self, run_id: RunId) -> None:
        for receipt in self.world.receipts.get(run_id, {}).values():
            if receipt.state == "leased":
                receipt.state = "released"

    def _forget_if_done(self, run_id: RunId) -> None:
        if not self._open(run_id):
            self.world.undelivered.pop(run_id, None)

    async def failed(self, lease: OutboxLease, *, error: str, delay: timedelta, dead: bool) -> bool:
        """Put the first fact off by `delay`, or among the dead letters; releases the lease."""

        def effect() -> bool:
            if not self._release(lease):
                return False
            now = self.world.now()
            for row in self._open(lease.run_id)[:1]:
                row.attempts += 1
                row.last_error = error
                row.due_at = now + delay
                row.dead_at = now if dead else None
            self._forget_if_done(lease.run_id)
            return True

        return await self._step("outbox.failed", effect)
