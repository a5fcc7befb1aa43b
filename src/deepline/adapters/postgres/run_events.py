"""The run ledger on Postgres: events once by id, read by cursor without a gap (C26, I21)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from deepline.adapters.postgres.rows import key_fields
from deepline.adapters.postgres.steps import Steps
from deepline.core.instants import iso
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.ledger import Fact
from deepline.ports.errors import FenceLost, Refused
from deepline.ports.run_events import LiveEvent, RunEvent

EVENTS_MAX = 100_000
"""How many events a run may have before its runner can add no more; facts are still applied."""
READ_MAX = 1_000

_READ = """
    select e.cursor, e.event_id, e.kind, e.payload, e.occurred_at
      from {schema}.run_events e where e.run_id = %s and e.cursor > %s
     order by e.cursor limit %s
"""


class PostgresRunEvents:
    """Implements `RunEvents`."""

    def __init__(self, steps: Steps, *, events_max: int = EVENTS_MAX) -> None:
        self._steps = steps
        self._events_max = events_max

    async def apply(self, facts: Sequence[Fact]) -> None:
        """Apply facts in order, each run's in one commit."""
        for run_id in dict.fromkeys(fact.run_id for fact in facts):
            await self._steps.write(
                "apply_facts",
                {
                    "run_id": run_id,
                    "events": [
                        {
                            "event_id": fact.event_id,
                            "kind": fact.kind,
                            "payload": fact.payload,
                            "occurred_at": iso(fact.occurred_at),
                        }
                        for fact in facts
                        if fact.run_id == run_id
                    ],
                },
            )

    async def append(self, key: AttemptKey, events: Sequence[LiveEvent]) -> int:
        """Append events of a live attempt, all or none."""
        answer: Any = await self._steps.write(
            "append_events",
            key_fields(key)
            | {
                "events": [
                    {"event_id": event.event_id, "kind": event.kind, "payload": event.payload}
                    for event in events
                ],
            },
            self._events_max,
        )
        refused = answer.get("refused")
        if refused == "attempt_over":
            raise FenceLost(f"attempt {key.attempt} of run {key.run_id} is over")
        if refused is not None:
            raise Refused(
                "event_quota", f"the run has its {self._events_max} events; report fewer of them"
            )
        return int(answer["added"])

    async def read(self, run_id: RunId, *, after: int, limit: int) -> Sequence[RunEvent]:
        """Read a page of events."""
        bounded = min(max(limit, 1), READ_MAX)
        return [_event(row) for row in await self._steps.read(_READ, run_id, after, bounded)]


def _event(row: tuple[Any, ...]) -> RunEvent:
    cursor, event_id, kind, payload, occurred_at = row
    at: datetime = occurred_at
    return RunEvent(
        cursor=cursor,
        event_id=event_id,
        kind=kind,
        payload=payload,
        occurred_at=at.astimezone(UTC),
    )
