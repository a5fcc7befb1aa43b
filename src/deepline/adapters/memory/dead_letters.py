"""Dead letters of the outbox, in memory (C26)."""

from collections.abc import Iterator, Sequence
from itertools import islice

from deepline.adapters.memory.rows import OutboxRow
from deepline.adapters.memory.world import Port
from deepline.core.model.identity import RunId
from deepline.core.model.why import Why
from deepline.ports.dead_letters import DeadLetter


class MemoryDeadLetters(Port):
    """The facts that are dead and not delivered."""

    async def list(
        self, *, run_id: RunId | None = None, after: RunId | None = None, limit: int = 50
    ) -> Sequence[DeadLetter]:
        """Dead letters in order of run id."""

        def effect() -> Sequence[DeadLetter]:
            dead = (row for row in self._dead(run_id) if after is None or row.fact.run_id > after)
            return tuple(self._letter(row) for row in islice(dead, min(max(limit, 1), 500)))

        return await self._step("dead_letters.list", effect)

    async def revive(self, *, run_id: RunId | None, by: str, limit: int = 1_000) -> int:
        """Make dead letters due now with a clean count."""

        def effect() -> int:
            dead = list(islice(self._dead(run_id), limit))
            for row in dead:
                row.due_at, row.attempts, row.dead_at = self.world.now(), 0, None
                self.world.undelivered[row.fact.run_id] = None
                why = Why("outbox.revived", {"by": by, "seq": row.fact.seq})
                self.world.decide(row.fact.run_id, 0, why)
            return len(dead)

        return await self._step("dead_letters.revive", effect)

    def _dead(self, run_id: RunId | None) -> Iterator[OutboxRow]:
        """Each run's dead letter, in order of run id."""
        run_ids = sorted(self.world.outbox) if run_id is None else [run_id]
        for one in run_ids:
            rows = self.world.outbox.get(one, ())
            yield from (row for row in rows if row.dead_at is not None)

    def _letter(self, row: OutboxRow) -> DeadLetter:
        assert row.dead_at is not None
        return DeadLetter(
            run_id=row.fact.run_id,
            org_id=self.world.runs[row.fact.run_id].org_id,
            seq=row.fact.seq,
            event_id=row.fact.event_id,
            kind=row.fact.kind,
            attempts=row.attempts,
            died_at=row.dead_at,
            error=row.last_error,
        )
