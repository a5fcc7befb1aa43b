"""Cleanup of sandboxes in memory: leased jobs, acceptances, events (C50, C51, Q40)."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from deepline.adapters.memory.obligations import add_usage, needed
from deepline.adapters.memory.rows import CleanupEventRow, CleanupJobRow
from deepline.adapters.memory.world import Port
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.json_value import JsonObject
from deepline.core.model.sandbox import Operation, SandboxRef
from deepline.ports.cleanup import Acceptance, CleanupJob, JobAgain, JobDone, JobResult

ACCEPTED = "provider_delete_accepted"


class MemoryCleanup(Port):
    """Obligations to delete; they stay until a sandbox is proven gone."""

    async def claim(
        self, owner: str, providers: Sequence[str], *, limit: int, lease: timedelta
    ) -> Sequence[CleanupJob]:
        """Lease due jobs of these providers, the longest due first."""

        def effect() -> Sequence[CleanupJob]:
            now = self.world.now()
            due = [
                job
                for job in self.world.open_cleanup.values()
                if job.provider in providers and job.due_at <= now
            ]
            due.sort(key=lambda job: (job.due_at, int(job.job_id)))
            return self._lease(due, owner, limit, lease)

        return await self._step("cleanup.claim", effect)

    async def claim_for(
        self, key: AttemptKey, owner: str, *, lease: timedelta
    ) -> Sequence[CleanupJob]:
        """Lease the open jobs of one attempt, due or not."""

        def effect() -> Sequence[CleanupJob]:
            jobs = [job for job in self.world.open_cleanup.values() if job.key == key]
            return self._lease(jobs, owner, len(jobs), lease)

        return await self._step("cleanup.claim_for", effect)

    async def claim_sandboxes(
        self, run_id: RunId, sandboxes: Sequence[SandboxRef], owner: str, *, lease: timedelta
    ) -> Sequence[CleanupJob]:
        """Lease the open jobs of these sandboxes of a run, due or not."""

        def effect() -> Sequence[CleanupJob]:
            named = {(one.provider, one.sandbox_id) for one in sandboxes}
            jobs = [
                job
                for job in self.world.open_cleanup.values()
                if job.key.run_id == run_id and (job.provider, job.sandbox_id) in named
            ]
            return self._lease(jobs, owner, len(jobs), lease)

        return await self._step("cleanup.claim_sandboxes", effect)

    def _lease(
        self, jobs: Iterable[CleanupJobRow], owner: str, limit: int, lease: timedelta
    ) -> Sequence[CleanupJob]:
        now = self.world.now()
        taken: list[CleanupJob] = []
        for job in jobs:
            leased = job.lease_expires_at is not None and job.lease_expires_at > now
            if len(taken) < limit and not leased and not needed(self.world, job):
                job.owner, job.lease_expires_at = owner, now + lease
                job.cleanup_attempt += 1
                taken.append(_job_value(job, owner, now))
        return taken

    def _held(self, job: CleanupJob) -> CleanupJobRow | None:
        row = self.world.open_cleanup.get(job.job_id)
        if row is None or row.owner != job.owner or row.cleanup_attempt != job.cleanup_attempt:
            return None
        return row

    async def acceptance(self, job: CleanupJob) -> Acceptance | None:
        def effect() -> Acceptance | None:
            accepted_at = self._accepted_at(job)
            return None if accepted_at is None else Acceptance(accepted_at=accepted_at)

        return await self._step("cleanup.acceptance", effect)

    def _accepted_at(self, job: CleanupJob) -> datetime | None:
        """When the delete of exactly this job's sandbox, run and attempt was accepted (I40)."""
        events = self.world.cleanup_events.get(job.key.run_id, ())
        return next((event.at for event in events if _accepts(event, job)), None)

    async def record_event(self, job: CleanupJob, kind: str, fields: JsonObject) -> None:
        """Keep an event; only the first acceptance of a job counts, and it ends the use."""

        def effect() -> None:
            events = self.world.cleanup_events.setdefault(job.key.run_id, [])
            if kind == ACCEPTED and any(_is_repeated(event, job) for event in events):
                return
            event = CleanupEventRow(
                job_id=job.job_id,
                key=job.key,
                provider=job.provider,
                sandbox_id=job.sandbox_id,
                routing_domain=job.routing_domain,
                kind=kind,
                fields=fields,
                at=self.world.now(),
            )
            events.append(event)
            if kind == ACCEPTED:
                self._end_use(job)

        await self._step("cleanup.record_event", effect)

    async def record_found(self, job: CleanupJob, sandbox: SandboxRef) -> bool:
        """Write down the sandbox of a held job that had none; False for any other job."""

        def effect() -> bool:
            row = self._held(job)
            if row is None or row.sandbox_id is not None:
                return False
            operation = self.world.operations[row.operation_key]
            if not _same_operation(operation.operation, job, sandbox):
                return False
            if operation.sandbox_id not in (None, sandbox.sandbox_id) and not row.searched:
                return False
            row.sandbox_id = operation.sandbox_id = sandbox.sandbox_id
            row.searched = True
            self._reroute(row, sandbox.routing_domain)
            add_usage(self.world, operation)
            return True

        return await self._step("cleanup.record_found", effect)

    async def finish(self, job: CleanupJob, result: JobResult) -> bool:
        """Close a held job or set it due again; False when the lease is lost."""

        def effect() -> bool:
            row = self._held(job)
            if row is None:
                return False
            row.owner = row.lease_expires_at = None
            match result:
                case JobDone():
                    self._done(row)
                case JobAgain():
                    row.due_at = self.world.now() + result.delay
                    row.failure_count += result.failed
                    self._reroute(row, result.routing_domain)
                    if result.forgets and row.searched:
                        self._end_use(row)
                        row.sandbox_id = self.world.operations[row.operation_key].sandbox_id = None
            return True

        return await self._step("cleanup.finish", effect)

    def _reroute(self, job: CleanupJobRow, routing_domain: str | None) -> None:
        if routing_domain is not None:
            operation = self.world.operations[job.operation_key]
            job.routing_domain = operation.routing_domain = routing_domain

    def _done(self, job: CleanupJobRow) -> None:
        now = self.world.now()
        job.done_at = now
        del self.world.open_cleanup[job.job_id]
        operation = self.world.operations[job.operation_key]
        operation.state, operation.gone_at = "gone", now
        self._end_use(job)

    def _end_use(self, job: CleanupJob | CleanupJobRow) -> None:
        """End the time of the job's sandbox now, unless the acceptance of its delete did."""
        ended_at = self.world.now()
        for use in self.world.usage.get(job.key.run_id, ()):
            same = (use.key, use.provider, use.sandbox_id) == (
                job.key,
                job.provider,
                job.sandbox_id,
            )
            if same and use.ended_at is None:
                use.ended_at = max(use.started_at, ended_at)


def _same_operation(operation: Operation, job: CleanupJob, sandbox: SandboxRef) -> bool:
    """Is the job's operation the very one whose sandbox was looked for (I42)?"""
    return (
        operation.token,
        operation.name,
        operation.provider,
        operation.org_id,
        operation.run_id,
        operation.attempt,
    ) == (
        job.operation_token,
        job.sandbox_name,
        sandbox.provider,
        job.org_id,
        job.key.run_id,
        job.key.attempt,
    )


def _is_repeated(event: CleanupEventRow, job: CleanupJob) -> bool:
    """Is the acceptance of this job's sandbox recorded already (I41)?"""
    return (event.kind, event.job_id, event.sandbox_id) == (ACCEPTED, job.job_id, job.sandbox_id)


def _accepts(event: CleanupEventRow, job: CleanupJob) -> bool:
    if event.kind != ACCEPTED or event.job_id != job.job_id:
        return False
    return (event.key, event.provider, event.sandbox_id, event.routing_domain) == (
        job.key,
        job.provider,
        job.sandbox_id,
        job.routing_domain,
    )


def _job_value(row: CleanupJobRow, owner: str, now: datetime) -> CleanupJob:
    return CleanupJob(
        job_id=row.job_id,
        owner=owner,
        key=row.key,
        org_id=row.org_id,
        provider=row.provider,
        sandbox_id=row.sandbox_id,
        sandbox_name=row.sandbox_name,
        operation_token=row.operation_token,
        routing_domain=row.routing_domain,
        cleanup_attempt=row.cleanup_attempt,
        failure_count=row.failure_count,
        age=now - row.created_at,
        capture_crash=row.capture_crash,
        searched=row.searched,
    )
