"""Which of the runs that people list wait for a release that nobody serves (C56, F53)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import attrs

from deepline.core.lane_standing import Standing, standing_of
from deepline.core.model.identity import Lane, RunId
from deepline.core.model.run import Run
from deepline.ports.clock import Clock
from deepline.ports.lanes import Lanes

LOOK_EVERY = timedelta(seconds=5)
"""Counting what lanes hold costs the store more than a page of runs does."""


@attrs.define(eq=False, kw_only=True)
class StrandedLanes:
    """Looks at the lanes of open runs, at all lanes at once and not more often than `LOOK_EVERY`.

    `lost_after` is how long a worker may be silent and counts as there.
    """

    lanes: Lanes
    clock: Clock
    lost_after: timedelta
    _found: frozenset[Lane] = attrs.field(init=False, default=frozenset())
    _looked_at: datetime | None = attrs.field(init=False, default=None)

    async def among(self, runs: Sequence[Run]) -> frozenset[RunId]:
        """Those of the runs that have not ended and whose lane nobody serves.

        Raises port errors of the store; asks it nothing for runs that have ended.
        """
        waiting = [run for run in runs if not run.status.is_terminal]
        if not waiting:
            return frozenset()
        now = self.clock.now()
        if self._looked_at is None or now - self._looked_at >= LOOK_EVERY:
            before = self._looked_at
            self._looked_at = now  # those who ask meanwhile do not look too
            try:
                states = await self.lanes.all()
            except BaseException:
                self._looked_at = before
                raise
            self._found = frozenset(
                state.lane
                for state in states
                if standing_of(state, self.lost_after) is Standing.STRANDED
            )
        return frozenset(run.run_id for run in waiting if run.lane in self._found)
