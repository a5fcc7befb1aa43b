"""Cleanup of sandboxes: obligations, jobs, delete acceptance and events (C50, C51, Q40)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

import attrs

from deepline.core.model.identity import AttemptKey, OrgId, RunId
from deepline.core.model.json_value import JsonObject
from deepline.core.model.sandbox import SandboxRef


@attrs.frozen(kw_only=True)
class CleanupJob:
    """One sandbox, or one operation whose sandbox may exist, to be deleted with proof.

    `sandbox_id` is `None` when only the operation's name is known; then the sandbox is looked up
    by `sandbox_name`. `searched` says that `sandbox_id` came of such a look-up, so that another may
    still come. `age` is how long the deletion has been owed, by the store's clock.
    `cleanup_attempt` counts claims of the job from 1; `failure_count` counts
    failed deletes. `owner` fences the answers.
    """

    job_id: str
    owner: str
    key: AttemptKey
    org_id: OrgId
    provider: str
    sandbox_id: str | None
    sandbox_name: str | None
    operation_token: str | None
    routing_domain: str | None
    cleanup_attempt: int
    failure_count: int
    age: timedelta
    capture_crash: bool
    searched: bool = False


@attrs.frozen(kw_only=True)
class Acceptance:
    """The provider accepted a delete of exactly this sandbox at `accepted_at` (I40)."""

    accepted_at: datetime


@attrs.frozen(kw_only=True)
class JobDone:
    """The sandbox is proven gone."""


@attrs.frozen(kw_only=True)
class JobAgain:
    """Not gone yet: look again after `delay`. `failed` counts it as a failure.

    `forgets`: the sandbox that a look-up found is gone, its time ends, and the job looks for
    another one of its operation.
    """

    delay: timedelta
    failed: bool
    routing_domain: str | None = None
    forgets: bool = False


JobResult: TypeAlias = JobDone | JobAgain


class Cleanup(Protocol):
    """Durable obligations to delete; they never give up and stay visible (L06)."""

    async def claim(
        self, owner: str, providers: Sequence[str], *, limit: int, lease: timedelta
    ) -> Sequence[CleanupJob]:
        """Lease due jobs of these providers whose run no longer needs the sandbox (I12)."""
        ...

    async def claim_for(
        self, key: AttemptKey, owner: str, *, lease: timedelta
    ) -> Sequence[CleanupJob]:
        """Lease the jobs of one attempt at once, for a best-effort delete now."""
        ...

    async def claim_sandboxes(
        self, run_id: RunId, sandboxes: Sequence[SandboxRef], owner: str, *, lease: timedelta
    ) -> Sequence[CleanupJob]:
        """Lease the jobs of exactly these sandboxes of one run, due or put off.

        Those that others hold, that are not owed, or whose run still needs them are left out.
        """
        ...

    async def acceptance(self, job: CleanupJob) -> Acceptance | None:
        """Read the stored acceptance for exactly this sandbox, run and attempt."""
        ...

    async def record_event(self, job: CleanupJob, kind: str, fields: JsonObject) -> None:
        """Append a durable cleanup event; only one `provider_delete_accepted` is kept (I41).

        That one ends the sandbox's usage (C55).
        """
        ...

    async def record_found(self, job: CleanupJob, sandbox: SandboxRef) -> bool:
        """Write down which sandbox a look-up found, before anybody deletes it (C47, C48).

        False, with nothing written, when the job's lease was lost, when its operation is not
        exactly that of the job, or when the operation is known to have made another sandbox.
        """
        ...

    async def finish(self, job: CleanupJob, result: JobResult) -> bool:
        """Close or put off the job; False when its lease was lost.

        Done ends the usage of a sandbox whose delete was never accepted now (C55).
        """
        ...
