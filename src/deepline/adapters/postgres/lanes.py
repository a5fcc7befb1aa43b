"""The registry of lanes on Postgres (C05, C56, C57)."""

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from deepline.adapters.postgres.steps import Steps
from deepline.core.model.identity import Lane, ReleaseId
from deepline.ports.lanes import LaneState

_ALL = """
    select l.lane, l.release_id, l.last_claim_at, l.open_tasks from {schema}.lane_states() l
"""


class PostgresLanes:
    """Implements `Lanes`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def all(self) -> Sequence[LaneState]:
        """Read every lane, oldest first; tasks are counted in the engine's own tables."""
        return [_lane(row) for row in await self._steps.read(_ALL)]


def _lane(row: tuple[Any, ...]) -> LaneState:
    lane, release_id, last_claim_at, open_tasks = row
    return LaneState(
        lane=Lane(lane),
        release_id=None if release_id is None else ReleaseId(release_id),
        last_claim_at=None if last_claim_at is None else last_claim_at.astimezone(UTC),
        open_tasks=open_tasks,
    )
