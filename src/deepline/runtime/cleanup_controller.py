"""Deleting sandboxes with proof, until none is left (C50–C52).

Runs in every worker for the providers it holds credentials of. Independent of claims: cleanup
needs no live attempt. One bad job never stops the others.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Self

import attrs
import trio

from deepline.core import cleanup_job as rule
from deepline.core import found_sandbox as search
from deepline.core.event_catalogue.event import CLEANUP
from deepline.core.limits import Limits
from deepline.core.model.identity import AttemptKey
from deepline.core.model.sandbox import Operation, SandboxRef
from deepline.ports.cleanup import Acceptance, Cleanup, CleanupJob, JobAgain, JobDone
from deepline.ports.clock import Clock
from deepline.ports.crash_reader import CrashReader
from deepline.ports.errors import PortError, Refused
from deepline.ports.sandbox_provider import (
    Deleted,
    DeleteFailed,
    DeleteOutcome,
    DeletePending,
    DeleteTimedOut,
    GoneWithAcceptance,
    Misrouted,
    NotFoundUnproven,
    NothingFound,
    SandboxProvider,
)
from deepline.ports.telemetry import Telemetry
from deepline.runtime.crash_capture import CrashCapture
from deepline.runtime.supervision import CHANNEL, text_of
from deepline.runtime.worker_ports import WorkerPorts

JOBS_PER_PASS = 16
CONCURRENT = 4


@attrs.define(eq=False)
class CleanupController:
    """Claims due jobs, deletes, and writes down what the provider said."""

    cleanup: Cleanup
    providers: Mapping[str, SandboxProvider]
    clock: Clock
    telemetry: Telemetry
    limits: Limits
    owner: str
    crashes: CrashCapture | None = None
    """`None` where nothing is kept of dead sandboxes."""
    _wake: trio.Event = attrs.field(init=False, factory=trio.Event)

    @classmethod
    def over(cls, ports: WorkerPorts, limits: Limits, owner: str) -> Self:
        """Build one from a worker's ports."""
        return cls(
            cleanup=ports.cleanup,
            providers=ports.providers,
            clock=ports.clock,
            telemetry=ports.telemetry,
            limits=limits,
            owner=owner,
            crashes=_captures(ports),
        )

    def wake(self) -> None:
        """Look for due jobs now instead of at the next poll."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled; raises port errors of the store, for its supervisor."""
        while True:
            if await self.run_pass() < JOBS_PER_PASS:
                with trio.move_on_after(self.limits.cleanup_poll.total_seconds()):
                    await self._wake.wait()
                self._wake = trio.Event()

    async def run_pass(self) -> int:
        """Claim and work through one batch; returns how many jobs it held."""
        jobs = await self.cleanup.claim(
            self.owner,
            sorted(self.providers),
            limit=JOBS_PER_PASS,
            lease=self.limits.cleanup_lease,
        )
        await self._work(jobs)
        return len(jobs)

    async def delete_now(self, key: AttemptKey) -> None:
        """Delete one attempt's sandboxes at once, best effort; its jobs stay for the controller.

        The caller bounds it; port errors are logged, never raised.
        """
        try:
            jobs = await self.cleanup.claim_for(key, self.owner, lease=self.limits.cleanup_lease)
        except PortError as error:
            self.telemetry.warn(
                CLEANUP, "runtime_sandbox_cleanup_failed", runId=key.run_id, error=text_of(error)
            )
            return
        await self._work([job for job in jobs if job.provider in self.providers])

    async def _work(self, jobs: Sequence[CleanupJob]) -> None:
        limiter = trio.CapacityLimiter(CONCURRENT)

        async def one(job: CleanupJob) -> None:
            async with limiter:
                await self._process_logged(job)

        async with trio.open_nursery() as nursery:
            for job in jobs:
                nursery.start_soon(one, job)

    async def _process_logged(self, job: CleanupJob) -> None:
        try:
            await self.process(job)
        except PortError as error:
            # The job's lease runs out and another pass takes it up again.
            self.telemetry.warn(
                CHANNEL, "cleanup_job_failed", runId=job.key.run_id, error=text_of(error)
            )

    async def process(self, job: CleanupJob) -> rule.DeleteFacts:
        """Work on one leased job in C51's order; returns what its delete came to.

        Raises port errors of the store.
        """
        accepted_before = None
        outcome: DeleteOutcome | None = None
        try:
            job, outcome = await self._identified(job)
            if outcome is None:
                acceptance = await self._acceptance(job)
                accepted_before = acceptance.accepted_at if acceptance else None
                if rule.starts_delete(accepted_before):
                    timeout_ms = int(self.limits.sandbox_delete.total_seconds() * 1000)
                    if self.crashes is not None:
                        await self.crashes.before_delete(job)
                    await self.cleanup.record_event(job, rule.STARTED, {"timeoutMs": timeout_ms})
                outcome = await self._bounded_delete(job, acceptance)
        except PortError as error:
            outcome = DeleteFailed(code="store", detail=text_of(error))
        facts = facts_of(outcome, job, accepted_before)
        pace = rule.Pace(
            poll=self.limits.cleanup_poll,
            first_backoff=self.limits.cleanup_backoff,
            longest_backoff=self.limits.cleanup_backoff_max,
            create_may_land=self.limits.create_may_land,
        )
        decision = rule.after_delete(facts, self.clock.now(), pace)
        for event in decision.events:
            await self.cleanup.record_event(job, event.kind, event.fields)
        self.telemetry.count("cleanup_outcomes", provider=job.provider, outcome=facts.seen.value)
        await self._finish(job, decision)
        return facts

    async def _acceptance(self, job: CleanupJob) -> Acceptance | None:
        if not rule.reads_acceptance(job.provider, job.cleanup_attempt):
            return None
        return await self.cleanup.acceptance(job)

    async def _identified(self, job: CleanupJob) -> tuple[CleanupJob, DeleteOutcome | None]:
        """The job with its sandbox known to the store, else what the look-up comes to (C47, C48).

        Never deletes: what was found is written down first, so that its end can be proven.
        """
        if job.sandbox_id is not None:
            return job, None
        found: SandboxRef | DeleteOutcome | None = DeleteTimedOut()
        with trio.move_on_after(self.limits.sandbox_delete.total_seconds()):
            found = await self._found(job)
        if found is not None and not isinstance(found, SandboxRef):
            return job, found
        decision = search.after_search(job.provider, found)
        if isinstance(decision, search.KeepLooking):
            return job, NothingFound()
        if isinstance(decision, search.RecordIntent):
            recorded = await self.cleanup.record_found(job, decision.sandbox)
            refusal = search.after_record(recorded=recorded)
            if refusal is None:
                return _searched(job, decision.sandbox), None
            decision = refusal
        return job, DeleteFailed(code=decision.code, detail=decision.why.rule)

    async def _found(self, job: CleanupJob) -> SandboxRef | DeleteOutcome | None:
        try:
            return await self.providers[job.provider].find(operation_of(job))
        except Refused as refusal:
            return DeleteFailed(code=refusal.code, detail=refusal.detail)
        except PortError as error:
            return DeleteFailed(code=type(error).__name__, detail=text_of(error))

    async def _bounded_delete(
        self, job: CleanupJob, acceptance: Acceptance | None
    ) -> DeleteOutcome:
        assert job.sandbox_id is not None
        sandbox = SandboxRef(
            provider=job.provider, sandbox_id=job.sandbox_id, routing_domain=job.routing_domain
        )
        outcome: DeleteOutcome = DeleteTimedOut()
        with trio.move_on_after(self.limits.sandbox_delete.total_seconds()):
            try:
                outcome = await self.providers[job.provider].delete(sandbox, acceptance)
            except PortError as error:
                return DeleteFailed(code=type(error).__name__, detail=text_of(error))
        return outcome

    async def _finish(self, job: CleanupJob, decision: rule.CleanupDecision) -> None:
        match decision:
            case rule.Done(provider_outcome=seen):
                kept = await self.cleanup.finish(job, JobDone())
                self.telemetry.info(
                    CHANNEL,
                    "sandbox_deleted",
                    runId=job.key.run_id,
                    attempt=job.key.attempt,
                    provider=job.provider,
                    cleanupAuthority="durable_cleanup_claim",
                    providerOutcome=seen.value,
                    completionOutcome="recorded" if kept else "lease_lost",
                )
            case rule.Again():
                await self.cleanup.finish(
                    job,
                    JobAgain(
                        delay=decision.delay,
                        failed=decision.failed,
                        routing_domain=decision.routing_domain,
                        forgets=decision.forgets,
                    ),
                )
                if decision.failed and job.failure_count + 1 >= rule.ALARM_AFTER_FAILURES:
                    self.telemetry.error(
                        CHANNEL,
                        "sandbox_cleanup_stuck",
                        runId=job.key.run_id,
                        provider=job.provider,
                        failureCount=job.failure_count + 1,
                    )


def _captures(ports: WorkerPorts) -> CrashCapture | None:
    if ports.crash_diagnostics is None:
        return None
    return CrashCapture(
        diagnostics=ports.crash_diagnostics,
        readers={
            name: provider
            for name, provider in ports.providers.items()
            if isinstance(provider, CrashReader)
        },
        telemetry=ports.telemetry,
    )


def operation_of(job: CleanupJob) -> Operation:
    """The operation whose sandbox the job looks for."""
    return Operation(
        key=job.job_id,
        token=job.operation_token or "",
        name=job.sandbox_name or "",
        provider=job.provider,
        org_id=job.org_id,
        run_id=job.key.run_id,
        attempt=job.key.attempt,
    )


def _searched(job: CleanupJob, sandbox: SandboxRef) -> CleanupJob:
    return attrs.evolve(
        job,
        sandbox_id=sandbox.sandbox_id,
        routing_domain=sandbox.routing_domain or job.routing_domain,
        searched=True,
    )


def facts_of(
    outcome: DeleteOutcome, job: CleanupJob, accepted_before: datetime | None
) -> rule.DeleteFacts:
    """Turn a provider's outcome into the facts the rule judges."""

    def facts(seen: rule.Seen, **more: object) -> rule.DeleteFacts:
        return rule.DeleteFacts(
            seen=seen,
            failure_count=job.failure_count,
            owed_for=job.age,
            unrecorded=job.sandbox_id is None or job.searched,
            owner_before=job.routing_domain,
            accepted_before=accepted_before,
            **more,  # type: ignore[arg-type]  # each case below names fields of DeleteFacts
        )

    match outcome:
        case Deleted():
            return facts(rule.Seen.DELETED)
        case GoneWithAcceptance():
            return facts(rule.Seen.GONE_WITH_ACCEPTANCE)
        case NotFoundUnproven():
            return facts(rule.Seen.NOT_FOUND_UNPROVEN)
        case Misrouted(routing_domain=domain):
            return facts(rule.Seen.MISROUTED, routing_domain=domain)
        case DeletePending(code=code, detail=detail, accepted=accepted):
            return facts(
                rule.Seen.PENDING,
                code=code,
                detail=detail,
                accepted_now=accepted,
                routing_domain=job.routing_domain,
            )
        case DeleteFailed(code=code, detail=detail):
            return facts(rule.Seen.FAILED, code=code, detail=detail)
        case NothingFound():
            return facts(rule.Seen.NOTHING_FOUND)
        case DeleteTimedOut():
            return facts(rule.Seen.TIMED_OUT, code="timed_out")
