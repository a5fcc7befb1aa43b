"""Runs that nobody brings to their end, found across all lanes (C35, C37, L02, L03, ENGINE §4).

Every list is bounded and cheap to ask for again. Ages are judged by the store's own clock. What is
found here is ended through `Terminals`, under the attempt's own fence.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

import attrs

from deepline.core.model.identity import AttemptKey, AttemptRef, Lane, ReleaseId, RunId

Place: TypeAlias = tuple[datetime, RunId]
"""Where a page ended: the instant its list is ordered by, then the run."""


@attrs.frozen(kw_only=True)
class UnsettledTerminal:
    """A live attempt that has its runner terminal, of a run that is open (C35)."""

    ref: AttemptRef
    lane: Lane
    stored_at: datetime

    @property
    def place(self) -> Place:
        """Where the next page begins."""
        return self.stored_at, self.ref.run_id


@attrs.frozen(kw_only=True)
class OverdueAttempt:
    """A live attempt whose detached runner has used up its time (C37)."""

    ref: AttemptRef
    lane: Lane
    ceiling_at: datetime

    @property
    def place(self) -> Place:
        """Where the next page begins."""
        return self.ceiling_at, self.ref.run_id


@attrs.frozen(kw_only=True)
class StrandedRun:
    """An open run that the engine will give to nobody any more.

    `task_state` is the engine's word for the task that is over, `None` when there is no task.
    `attempt` is the newest attempt, 0 before the first.
    """

    run_id: RunId
    lane: Lane
    release_id: ReleaseId | None
    attempt: int
    task_id: str | None
    task_state: str | None


@attrs.frozen(kw_only=True)
class StrandedPage:
    """What one step of the walk over open runs found, at `read_at` by the store's clock.

    `after` continues the walk; `None` when it came to the end.
    """

    runs: Sequence[StrandedRun]
    after: RunId | None
    read_at: datetime


class Recovery(Protocol):
    """Finding what is left behind. Reads wait for nobody and hold no lock when they return."""

    async def unsettled(
        self, *, lane: Lane | None, older_than: timedelta, after: Place | None, limit: int
    ) -> Sequence[UnsettledTerminal]:
        """Runner terminals whose run is open, on one lane or on all, oldest first.

        Those younger than `older_than` are left to the wake that their push caused.
        """
        ...

    async def overdue(
        self, *, lease: timedelta, after: Place | None, limit: int
    ) -> Sequence[OverdueAttempt]:
        """Attempts past their runner's ceiling, on every lane, longest first.

        A waiting attempt is one as soon as `now >= ceiling`. One that runs, taken by a claim of
        ours or left by a dead worker, is one when nothing has touched it for a whole `lease`. A
        suspension that cannot be read is none, see `unreadable`.
        """
        ...

    async def claim_overdue(self, ref: AttemptRef, *, owner: str, lease: timedelta) -> bool:
        """Take an overdue attempt to running under its own fence, in one statement (Q20).

        It is no candidate any more until `lease` has passed. False when it was none: resumed,
        ended, superseded, or claimed by another. The run's own engine claim may still take the
        attempt over under a new fence, which ends this claim.
        """
        ...

    async def unreadable(self, *, limit: int) -> Sequence[AttemptKey]:
        """Waiting attempts whose suspension cannot be read, so that nobody knows their ceiling."""
        ...

    async def stranded(self, *, grace: timedelta, after: RunId | None, limit: int) -> StrandedPage:
        """Look at up to `limit` open runs in order of run id for those whose task is over or gone.

        A run that was made, or whose attempt was touched, within `grace` is left alone.
        """
        ...
