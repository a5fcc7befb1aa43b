"""Stale runners, recorded terminals and verdicts in memory (C39, C41, Q21)."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TypeVar

from deepline.adapters.memory.rows import AttemptRow
from deepline.adapters.memory.world import Port
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.identity import AttemptRef, ReleaseId, RunId
from deepline.core.model.result import RunnerTerminal
from deepline.core.model.stale_runner import RecordedTerminal, StaleRunner
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.model.why import Why
from deepline.ports.liveness_work import (
    VerdictOutcome,
    VerdictRefused,
    VerdictStored,
    WorkFound,
    WorkQuery,
)

Item = TypeVar("Item", StaleRunner, RecordedTerminal)


class MemoryLivenessWork(Port):
    """Looks at every attempt; a fake may."""

    async def find(self, query: WorkQuery) -> WorkFound:
        """Read one page of stale runners a provider, and one of recorded terminals."""

        def effect() -> WorkFound:
            now = self.world.now()
            stale = [
                self._stale(row, suspension)
                for row, suspension in self._silent(now, query.default_timeout)
            ]
            pages = [
                _page([one for one in stale if one.provider == provider], after, query.limit)
                for provider, after in query.after.items()
            ]
            return WorkFound(
                found_at=now,
                stale=tuple(runner for page in pages for runner in page),
                terminals=tuple(_page(list(self._recorded()), query.after_terminal, query.limit)),
            )

        return await self._step("liveness_work.find", effect)

    async def record_verdict(
        self, runner: StaleRunner, terminal: RunnerTerminal, why: Why
    ) -> VerdictOutcome:
        """Store the attempt's first terminal if everything about it is as it was found."""

        def effect() -> VerdictOutcome:
            row = self.world.attempt_of(runner.ref)
            if row is None or not self._is_parked(row):
                return VerdictRefused("attempt_over")
            if row.runner_terminal is not None:
                return VerdictRefused("terminal_stored")
            if not _waits_as_found(row, runner):
                return VerdictRefused("suspension_moved")
            if row.heartbeat != runner.liveness.identity:
                return VerdictRefused("heartbeat_moved")
            row.runner_terminal, row.runner_terminal_at = terminal, self.world.now()
            row.updated_at = row.runner_terminal_at
            self.world.decide(row.run_id, row.attempt, why)
            return VerdictStored()

        return await self._step("liveness_work.record_verdict", effect)

    def _silent(
        self, now: datetime, default: timedelta
    ) -> Iterator[tuple[AttemptRow, DetachedSuspension]]:
        for row in self._parked():
            suspension = row.suspension
            if row.runner_terminal is not None or row.suspended:
                continue
            if not isinstance(suspension, DetachedSuspension):
                continue
            base = suspension.started_at if row.heartbeat_at is None else row.heartbeat_at
            own = suspension.heartbeat_timeout
            timeout = default if own is None or own < timedelta(0) else own
            if now - base >= timeout:
                yield row, suspension

    def _recorded(self) -> Iterator[RecordedTerminal]:
        for row in self._parked():
            if row.runner_terminal is not None:
                yield RecordedTerminal(ref=_ref(row), release_id=self._release(row))

    def _parked(self) -> Iterator[AttemptRow]:
        for row in self.world.attempts.values():
            if self._is_parked(row):
                yield row

    def _is_parked(self, row: AttemptRow) -> bool:
        run = self.world.runs[row.run_id]
        return (
            row.status is AttemptStatus.WAITING
            and run.attempt == row.attempt
            and not run.ended
            and run.cancel_requested_at is None
        )

    def _stale(self, row: AttemptRow, suspension: DetachedSuspension) -> StaleRunner:
        return StaleRunner(
            ref=_ref(row),
            release_id=self._release(row),
            provider=suspension.sandbox_provider,
            suspension=suspension,
            liveness=row.liveness,
        )

    def _release(self, row: AttemptRow) -> ReleaseId | None:
        return self.world.runs[row.run_id].release_id


def _ref(row: AttemptRow) -> AttemptRef:
    return AttemptRef(row.run_id, row.attempt, row.lease_token)


def _page(items: list[Item], after: RunId | None, limit: int) -> list[Item]:
    rest = [item for item in items if after is None or item.ref.run_id > after]
    return sorted(rest, key=lambda item: item.ref.run_id)[:limit]


def _waits_as_found(row: AttemptRow, runner: StaleRunner) -> bool:
    waits, found = row.suspension, runner.suspension
    if row.suspended or not isinstance(waits, DetachedSuspension) or found is None:
        return False
    return (waits.boundary_id, waits.sandbox_id) == (found.boundary_id, found.sandbox_id)
