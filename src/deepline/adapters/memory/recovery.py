"""Finding what is left behind, in memory (C35, C37, ENGINE §4)."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar

from deepline.adapters.memory.rows import AttemptRow, RunRow
from deepline.adapters.memory.world import Port
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.identity import AttemptKey, AttemptRef, Lane, RunId
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import DetachedSuspension
from deepline.ports.recovery import (
    OverdueAttempt,
    Place,
    StrandedPage,
    StrandedRun,
    UnsettledTerminal,
)

Found = TypeVar("Found", UnsettledTerminal, OverdueAttempt)


class MemoryRecovery(Port):
    """Looks through the newest attempts of open runs."""

    async def unsettled(
        self, *, lane: Lane | None, older_than: timedelta, after: Place | None, limit: int
    ) -> Sequence[UnsettledTerminal]:
        """Runner terminals whose run is open, oldest first."""

        def effect() -> Sequence[UnsettledTerminal]:
            latest = self.world.now() - older_than
            found = [
                UnsettledTerminal(ref=_ref(row), lane=run.lane, stored_at=row.runner_terminal_at)
                for run, row in self._live()
                if lane in (None, run.lane)
                and row.runner_terminal_at is not None
                and row.runner_terminal_at <= latest
            ]
            return _page(found, after, limit)

        return await self._step("recovery.unsettled", effect)

    async def overdue(
        self, *, lease: timedelta, after: Place | None, limit: int
    ) -> Sequence[OverdueAttempt]:
        """Attempts past their runner's ceiling, longest first."""

        def effect() -> Sequence[OverdueAttempt]:
            found = [
                OverdueAttempt(ref=_ref(row), lane=run.lane, ceiling_at=ceiling_at)
                for run, row in self._live()
                if (ceiling_at := self._overdue_since(row, lease)) is not None
            ]
            return _page(found, after, limit)

        return await self._step("recovery.overdue", effect)

    async def claim_overdue(self, ref: AttemptRef, *, owner: str, lease: timedelta) -> bool:
        """Take an overdue attempt to running under its own fence."""

        def effect() -> bool:
            row = self.world.attempt_of(ref)
            if row is None or self._overdue_since(row, lease) is None:
                return False
            row.status, row.claim_owner = AttemptStatus.RUNNING, owner
            row.silence, row.updated_at = None, self.world.now()
            self.world.runs[ref.run_id].status = RunStatus.RUNNING
            return True

        return await self._step("recovery.claim_overdue", effect)

    async def unreadable(self, *, limit: int) -> Sequence[AttemptKey]:
        """Waiting attempts of which nobody knows what they wait for."""

        def effect() -> Sequence[AttemptKey]:
            found = (
                AttemptKey(row.run_id, row.attempt)
                for _, row in self._live()
                if row.status is AttemptStatus.WAITING and row.suspension is None
            )
            return tuple(islice(found, limit))

        return await self._step("recovery.unreadable", effect)

    async def stranded(self, *, grace: timedelta, after: RunId | None, limit: int) -> StrandedPage:
        """Look at up to `limit` open runs for those whose task is over or gone."""

        def effect() -> StrandedPage:
            open_runs = sorted(
                run.run_id
                for run in self.world.runs.values()
                if not run.ended and (after is None or run.run_id > after)
            )[:limit]
            latest = self.world.now() - grace
            found = (self._stranded(self.world.runs[run_id], latest) for run_id in open_runs)
            return StrandedPage(
                runs=tuple(one for one in found if one is not None),
                after=open_runs[-1] if len(open_runs) == limit else None,
                read_at=self.world.now(),
            )

        return await self._step("recovery.stranded", effect)

    def _live(self) -> Iterable[tuple[RunRow, AttemptRow]]:
        for run in self.world.runs.values():
            row = None if run.ended else self.world.newest_attempt(run)
            if row is not None and row.live:
                yield run, row

    def _overdue_since(self, row: AttemptRow, lease: timedelta) -> datetime | None:
        """When the attempt's runner ran out of time, if somebody should end it for that now."""
        now = self.world.now()
        if not isinstance(row.suspension, DetachedSuspension) or row.pending is not None:
            return None
        if now < row.suspension.ceiling_at:
            return None
        if row.status is AttemptStatus.RUNNING and row.updated_at > now - lease:
            return None
        return row.suspension.ceiling_at

    def _stranded(self, run: RunRow, latest: datetime) -> StrandedRun | None:
        task = self.world.queue.tasks.get(run.task_id or "")
        newest = self.world.newest_attempt(run)
        touched_at = run.created_at if newest is None else newest.updated_at
        if touched_at > latest or (task is not None and task.open):
            return None
        return StrandedRun(
            run_id=run.run_id,
            lane=run.lane,
            release_id=run.release_id,
            attempt=run.attempt,
            task_id=run.task_id,
            task_state=None if task is None else task.state,
        )


def _ref(row: AttemptRow) -> AttemptRef:
    return AttemptRef(row.run_id, row.attempt, row.lease_token)


def _page(found: Iterable[Found], after: Place | None, limit: int) -> Sequence[Found]:
    ordered = sorted(found, key=lambda one: one.place)
    return tuple(islice((one for one in ordered if after is None or one.place > after), limit))
