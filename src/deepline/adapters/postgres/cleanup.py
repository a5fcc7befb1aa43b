"""Cleanup on Postgres: leased jobs, lasting events, the end of a sandbox's time (C50–C52, C55)."""

import json
from collections.abc import Sequence
from datetime import timedelta

from deepline.adapters.postgres.rows import instant, key_fields
from deepline.adapters.postgres.steps import Row, Steps
from deepline.core.instants import length_ms
from deepline.core.model.identity import AttemptKey, OrgId, RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.sandbox import SandboxRef
from deepline.ports.cleanup import Acceptance, CleanupJob, JobAgain, JobDone, JobResult

_ACCEPTANCE = "select {schema}.iso({schema}.accepted_at(%s, %s, %s, %s, %s, %s))"


class PostgresCleanup:
    """Implements `Cleanup`.

    A job's answers are fenced by its owner and by how often it was claimed, so that an owner who
    lost a job and claimed it again is two.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def claim(
        self, owner: str, providers: Sequence[str], *, limit: int, lease: timedelta
    ) -> Sequence[CleanupJob]:
        """Lease due jobs, the one due longest first; jobs that others look at are passed over."""
        rows = await self._steps.call("claim_cleanup", owner, list(providers), limit, lease)
        return _jobs(rows)

    async def claim_for(
        self, key: AttemptKey, owner: str, *, lease: timedelta
    ) -> Sequence[CleanupJob]:
        """Lease the jobs of one attempt, due or put off."""
        rows = await self._steps.call("claim_cleanup_of", key.run_id, key.attempt, owner, lease)
        return _jobs(rows)

    async def claim_sandboxes(
        self, run_id: RunId, sandboxes: Sequence[SandboxRef], owner: str, *, lease: timedelta
    ) -> Sequence[CleanupJob]:
        """Lease the jobs of these sandboxes; an updated routing domain makes no other sandbox."""
        named = json.dumps([[one.provider, one.sandbox_id] for one in sandboxes])
        rows = await self._steps.call("claim_cleanup_of_sandboxes", run_id, named, owner, lease)
        return _jobs(rows)

    async def acceptance(self, job: CleanupJob) -> Acceptance | None:
        """Read the stored acceptance."""
        [row] = await self._steps.read(_ACCEPTANCE, int(job.job_id), *_sandbox(job).values())
        return None if row[0] is None else Acceptance(accepted_at=instant(str(row[0])))

    async def record_event(self, job: CleanupJob, kind: str, fields: JsonObject) -> None:
        """Append a durable event."""
        request = _sandbox(job) | {"job_id": int(job.job_id), "kind": kind, "fields": fields}
        await self._steps.write("record_cleanup_events", request)

    async def record_found(self, job: CleanupJob, sandbox: SandboxRef) -> bool:
        """Record the sandbox under the operation's exact identity, while the job is held."""
        request: dict[str, Json] = _fence(job) | {
            "attempt": job.key.attempt,
            "org_id": job.org_id,
            "provider": sandbox.provider,
            "sandbox_id": sandbox.sandbox_id,
            "sandbox_name": job.sandbox_name,
            "operation_token": job.operation_token,
            "routing_domain": sandbox.routing_domain,
        }
        answer = await self._steps.write("record_found_sandboxes", request)
        assert isinstance(answer, dict)
        return bool(answer["recorded"])

    async def finish(self, job: CleanupJob, result: JobResult) -> bool:
        """Close or put off the job."""
        request = _fence(job)
        match result:
            case JobDone():
                request |= {"done": True, "failed": False, "forgets": False}
            case JobAgain():
                request |= {
                    "done": False,
                    "failed": result.failed,
                    "forgets": result.forgets,
                    "delay_ms": length_ms(result.delay),
                    "routing_domain": result.routing_domain,
                }
        answer = await self._steps.write("finish_cleanup", request)
        assert isinstance(answer, dict)
        return bool(answer["held"])


def _fence(job: CleanupJob) -> dict[str, Json]:
    """By what a job is still the asker's own."""
    return {
        "run_id": job.key.run_id,
        "job_id": int(job.job_id),
        "owner": job.owner,
        "cleanup_attempt": job.cleanup_attempt,
    }


def _sandbox(job: CleanupJob) -> dict[str, Json]:
    """What identifies the sandbox of a job, in the order of `accepted_at`'s arguments."""
    return key_fields(job.key) | {
        "provider": job.provider,
        "sandbox_id": job.sandbox_id,
        "routing_domain": job.routing_domain,
    }


def _jobs(rows: Sequence[Row]) -> Sequence[CleanupJob]:
    return [_job(row[0]) for row in rows]


def _job(answer: object) -> CleanupJob:
    assert isinstance(answer, dict)
    return CleanupJob(
        job_id=str(answer["job_id"]),
        owner=answer["owner"],
        key=AttemptKey(RunId(answer["run_id"]), answer["attempt"]),
        org_id=OrgId(answer["org_id"]),
        provider=answer["provider"],
        sandbox_id=answer["sandbox_id"],
        sandbox_name=answer["sandbox_name"],
        operation_token=answer["operation_token"],
        routing_domain=answer["routing_domain"],
        cleanup_attempt=answer["cleanup_attempt"],
        failure_count=answer["failure_count"],
        age=timedelta(milliseconds=answer["age_ms"]),
        capture_crash=answer["capture_crash"],
        searched=answer["searched"],
    )
