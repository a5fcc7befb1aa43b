"""Dead letters of the outbox on Postgres (C26)."""

from collections.abc import Sequence
from typing import Any

from deepline.adapters.postgres.steps import Steps
from deepline.core.model.identity import OrgId, RunId
from deepline.ports.dead_letters import DeadLetter

_LIST = """
    select o.run_id, r.org_id, o.seq, o.event_id, o.kind, o.attempts, o.dead_at, o.last_error
      from {schema}.outbox o join {schema}.runs r on r.run_id = o.run_id
     where o.dead_at is not null
       and (%s::text is null or o.run_id = %s) and (%s::text is null or o.run_id > %s)
     order by o.run_id limit %s
"""


class PostgresDeadLetters:
    """Implements `DeadLetters`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def list(
        self, *, run_id: RunId | None = None, after: RunId | None = None, limit: int = 50
    ) -> Sequence[DeadLetter]:
        """Dead letters in order of run id."""
        bounded = min(max(limit, 1), 500)
        rows: Sequence[tuple[Any, ...]] = await self._steps.read(
            _LIST, run_id, run_id, after, after, bounded
        )
        return [_letter(*row) for row in rows]

    async def revive(self, *, run_id: RunId | None, by: str, limit: int = 1_000) -> int:
        """Make dead letters due now. Cancelled, they may be revived all the same."""
        ((revived,),) = await self._steps.call("revive_dead_letters", run_id, by, limit)
        return int(str(revived))


def _letter(run_id: str, org_id: str, seq: int, event_id: str, kind: str, *rest: Any) -> DeadLetter:
    attempts, died_at, error = rest
    return DeadLetter(
        run_id=RunId(run_id),
        org_id=OrgId(org_id),
        seq=seq,
        event_id=event_id,
        kind=kind,
        attempts=attempts,
        died_at=died_at,
        error=error,
    )
