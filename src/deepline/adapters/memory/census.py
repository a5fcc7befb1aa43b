"""The census in memory (C58). Looks at every row; a fake may."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from deepline.adapters.memory.rows import AttemptRow, RunRow
from deepline.adapters.memory.world import Port
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.identity import Lane
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import DetachedSuspension, EventSuspension
from deepline.ports.census import Figures, LaneFigures, Pile


class MemoryCensus(Port):
    """Counts the tables of the world."""

    async def take(self, *, silent_after: timedelta, stuck_after: int) -> Figures:
        """Count everything that is open."""

        def effect() -> Figures:
            now = self.world.now()
            attempts = [row for row in self._newest() if row.live]
            told = [row for row in attempts if row.runner_terminal_at is not None]
            parked = [row for row in attempts if _is_parked(row)]
            facts = [row for rows in self.world.outbox.values() for row in rows]
            jobs = [row for row in self.world.cleanup_jobs.values() if row.done_at is None]
            held = [row for row in self.world.operations.values() if row.held]
            return Figures(
                taken_at=now,
                lanes=tuple(self._lane(lane, now) for lane in self.world.lanes),
                unsettled=_pile((row.runner_terminal_at for row in told), now),
                detached=_pile((row.heartbeat_at or row.updated_at for row in parked), now),
                silent=sum(_is_silent(row, now, silent_after) for row in parked),
                outbox=_pile((row.fact.occurred_at for row in facts if row.open), now),
                outbox_dead=sum(row.dead_at is not None for row in facts),
                cleanup=_pile((row.created_at for row in jobs), now),
                cleanup_stuck=sum(row.failure_count >= stuck_after for row in jobs),
                waits=_pile((row.updated_at for row in attempts if _waits_for_ever(row)), now),
                sandboxes=dict(Counter(row.operation.provider for row in held)),
            )

        return await self._step("census.take", effect)

    def _newest(self) -> Iterable[AttemptRow]:
        for run in self.world.runs.values():
            row = self.world.newest_attempt(run)
            if row is not None and not run.ended:
                yield row

    def _lane(self, lane: Lane, now: datetime) -> LaneFigures:
        runs = [run for run in self.world.runs.values() if run.lane == lane and not run.ended]
        claims = self._claims(lane)
        stale = {task for task, ends_at in claims.items() if ends_at <= now}
        running = [run for run in runs if run.status is RunStatus.RUNNING]
        claimed_at = self.world.lanes[lane].last_claim_at
        return LaneFigures(
            lane=lane,
            queued=_pile((run.created_at for run in runs if run.status is RunStatus.QUEUED), now),
            running=_pile((run.admitted_at for run in running), now),
            waiting=_pile(
                (run.admitted_at for run in runs if run.status is RunStatus.WAITING), now
            ),
            stale_leases=len(stale),
            running_without_lease=sum(
                run.task_id not in claims or run.task_id in stale for run in running
            ),
            given_up=sum(self._is_given_up(run) for run in runs),
            claimed_ago=None if claimed_at is None else now - claimed_at,
        )

    def _claims(self, lane: Lane) -> dict[str, datetime]:
        return {
            task.task_id: task.current.claim_expires_at
            for task in self.world.queue.tasks.values()
            if task.lane == lane
            and task.current.state == "running"
            and task.current.claim_expires_at is not None
        }

    def _is_given_up(self, run: RunRow) -> bool:
        task = self.world.queue.tasks.get(run.task_id or "")
        return task is not None and task.state in ("failed", "cancelled")


def _is_parked(row: AttemptRow) -> bool:
    return (
        row.status is AttemptStatus.WAITING
        and row.runner_terminal is None
        and isinstance(row.suspension, DetachedSuspension)
    )


def _waits_for_ever(row: AttemptRow) -> bool:
    return (
        row.status is AttemptStatus.WAITING
        and row.runner_terminal is None
        and isinstance(row.suspension, EventSuspension)
        and row.suspension.expires_at is None
    )


def _is_silent(row: AttemptRow, now: datetime, default: timedelta) -> bool:
    assert isinstance(row.suspension, DetachedSuspension)
    own = row.suspension.heartbeat_timeout
    timeout = default if own is None or own < timedelta(0) else own
    return now - (row.heartbeat_at or row.suspension.started_at) >= timeout


def _pile(instants: Iterable[datetime | None], now: datetime) -> Pile:
    known = [at for at in instants if at is not None]
    oldest = now - min(known) if known else timedelta(0)
    return Pile(count=len(known), oldest=max(oldest, timedelta(0)))
