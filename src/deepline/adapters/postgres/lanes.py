"""The registry of lanes on Postgres (C05, C56, C57)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from deepline.adapters.postgres.rows import instant, optional
from deepline.adapters.postgres.steps import Steps
from deepline.core.model.identity import Lane, ReleaseId
from deepline.core.model.lane import LaneState, LaneWorker
from deepline.ports.lanes import LaneBeat

_ALL = "select l.state from {schema}.lane_states() l"
_ONE = "select l.state from {schema}.lane_state(%s) l"


class PostgresLanes:
    """Implements `Lanes`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def all(self) -> Sequence[LaneState]:
        """Read every lane, oldest first; tasks are counted in the engine's own tables."""
        return [_lane(row[0]) for row in await self._steps.read(_ALL)]

    async def read(self, lane: Lane) -> LaneState | None:
        """Read one lane."""
        rows = await self._steps.read(_ONE, lane)
        return _lane(rows[0][0]) if rows else None

    async def beat(self, beat: LaneBeat) -> None:
        """Remember which lanes a worker serves."""
        await self._steps.call(
            "lane_beat",
            beat.worker,
            beat.release_id,
            beat.leaving,
            [one.lane for one in beat.served],
            [one.adopted for one in beat.served],
        )

    async def left(self, worker: str) -> None:
        """Forget a worker."""
        await self._steps.call("lane_left", worker)

    async def drain(self, lane: Lane, *, draining: bool) -> bool:
        """Mark the lane as draining, or take the mark away."""
        [row] = await self._steps.call("drain_lane", lane, draining)
        return bool(row[0])

    async def hand_over(self, lane: Lane) -> bool:
        """Let other workers take the lane at once."""
        [row] = await self._steps.call("hand_lane_over", lane)
        return bool(row[0])

    async def prune(self, lane: Lane, *, lost_after: timedelta) -> bool:
        """Remove a lane that is over, with its queue."""
        [row] = await self._steps.call("prune_lane", lane, lost_after.total_seconds())
        return bool(row[0])


def _lane(row: Any) -> LaneState:
    return LaneState(
        lane=Lane(row["lane"]),
        release_id=optional(ReleaseId, row["release_id"]),
        read_at=instant(row["read_at"]),
        created_at=instant(row["created_at"]),
        last_claim_at=optional(instant, row["last_claim_at"]),
        open_tasks=row["open_tasks"],
        queued=row["queued"],
        running=row["running"],
        parked=row["parked"],
        oldest_open_at=optional(instant, row["oldest_open_at"]),
        draining=row["draining"],
        handed_over=row["handed_over"],
        workers=tuple(_worker(one) for one in row["workers"] or ()),
    )


def _worker(row: Any) -> LaneWorker:
    return LaneWorker(
        worker=row["worker"],
        release_id=optional(ReleaseId, row["release_id"]),
        adopted=row["adopted"],
        leaving=row["leaving"],
        started_at=instant(row["started_at"]),
        seen_at=instant(row["seen_at"]),
    )
