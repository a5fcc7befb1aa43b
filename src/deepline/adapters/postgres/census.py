"""The census on Postgres (C58); see 0040_census.sql and 0063_waits.sql."""

from datetime import timedelta
from typing import Any

from deepline.adapters.postgres.rows import Document, instant
from deepline.adapters.postgres.steps import Steps
from deepline.core.model.identity import Lane
from deepline.ports.census import Figures, LaneFigures, Pile

_TAKE = "select {schema}.census(%s, %s), {schema}.waits_without_limit()"


class PostgresCensus:
    """Implements `Census`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def take(self, *, silent_after: timedelta, stuck_after: int) -> Figures:
        """Count everything that is open, in one read."""
        rows: Any = await self._steps.read(_TAKE, silent_after.total_seconds(), stuck_after)
        found: Document = rows[0][0]
        waits: Document = rows[0][1]
        return Figures(
            taken_at=instant(found["taken_at"]),
            lanes=tuple(_lane(one) for one in found["lanes"]),
            unsettled=_pile(found["unsettled"]),
            detached=_pile(found["detached"]),
            silent=found["detached"]["silent"],
            outbox=_pile(found["outbox"]),
            outbox_dead=found["outbox_dead"],
            cleanup=_pile(found["cleanup"]),
            cleanup_stuck=found["cleanup"]["stuck"],
            waits=_pile(waits),
            sandboxes=dict(found["sandboxes"]),
        )


def _lane(found: Document) -> LaneFigures:
    claimed_s = found["claimed_s_ago"]
    return LaneFigures(
        lane=Lane(found["lane"]),
        queued=_pile(found["queued"]),
        running=_pile(found["running"]),
        waiting=_pile(found["waiting"]),
        stale_leases=found["stale_leases"],
        running_without_lease=found["without_lease"],
        given_up=found["given_up"],
        claimed_ago=None if claimed_s is None else timedelta(seconds=claimed_s),
    )


def _pile(found: Document) -> Pile:
    return Pile(count=found["count"], oldest=timedelta(seconds=found["oldest_s"]))
