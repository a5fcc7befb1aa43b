"""Claiming work and an attempt's life on Postgres (C12, C13, C17, C29, C50, C53, C54).

Each operation is one call of a function in the migrations, which locks the run's row, checks the
fences and answers whether it held; see 0003_claims.sql and 0010_parking.sql.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb

from deepline.adapters.postgres.launches import Count, count_in_passing, count_nothing
from deepline.adapters.postgres.rows import (
    Document,
    attempt_from_row,
    claim_fields,
    fence_fields,
    instant,
    optional,
    prepared_from_row,
    work_fields,
)
from deepline.adapters.postgres.steps import Steps
from deepline.core.limits import Limits
from deepline.core.model.attempt import Attempt, RetireReason
from deepline.core.model.checkpoint import Checkpoint, SilenceWatch
from deepline.core.model.claim import Claim, LaunchMissing, Missing, Prepared
from deepline.core.model.identity import AttemptKey, AttemptRef, Lane
from deepline.core.model.json_value import Json
from deepline.core.model.sandbox import SandboxRef
from deepline.core.model.suspension import DetachedSuspension, Suspension
from deepline.core.model.why import Why
from deepline.ports.attempts import (
    ClaimRequest,
    LostFence,
    OutageExhausted,
    OutageOutcome,
    Parked,
    ParkOutcome,
    PreCodeRecovery,
    Retired,
    RetireOutcome,
)
from deepline.ports.errors import FenceLost, PortError
from deepline.ports.wire import (
    checkpoint_to_json,
    silence_watch_to_json,
    suspension_to_json,
    why_to_json,
)

_LIVE = """
    select exists (select from {schema}.attempts a
     where a.run_id = %s and a.attempt = %s and a.status in ('running', 'waiting')
       and (%s::text is null or a.lease_token = %s))
"""
CLAIM = "worker_claim"
"""Who reads the launches that come with claims (C58)."""
_WAIT = True
"""A claim in hand is prepared in a transaction that may wait for its run's row."""
_RECOVERY = """
    select {schema}.iso(d.first_failed_at), d.deferrals from {schema}.recovery_deferrals d
     where d.run_id = %s and d.dependency = %s
"""


class PostgresAttempts:
    """Implements `Attempts`.

    `claimed` hears the organisation limit of each claim of a lane, `count` the launches read.
    """

    def __init__(
        self,
        steps: Steps,
        limits: Limits,
        claimed: Callable[[Lane, int], None] | None = None,
        count: Count = count_nothing,
    ) -> None:
        self._steps = steps
        self._limits = limits
        self._claimed = claimed
        self._count = count

    async def claim(self, request: ClaimRequest) -> Sequence[Prepared]:
        """Admit, claim and prepare in one transaction.

        A run that another transaction holds at that moment is prepared in a second one; when that
        fails, its claim is left to run out and the other runs are answered.
        """
        if self._claimed is not None:
            self._claimed(request.lane, request.org_limit)
        answers = await self._steps.call(
            "claim",
            request.lane,
            request.owner,
            request.worker,
            _whole_seconds(request.lease),
            request.quantity,
            request.org_limit,
            list(request.placement_keys),
        )
        rows = await self._prepare_busy([_document(row) for (row,) in answers], request)
        return [self._prepared(row) for row in rows if row["kind"] != "lost"]

    async def prepare(
        self, claim: Claim, *, placement_keys: Sequence[str], worker: str
    ) -> Prepared:
        """Prepare a claim in hand; a `Fresh` attempt made for it before is answered again."""
        row = (await self._prepare([_claim_row(claim)], claim, placement_keys, worker))[0]
        if row["kind"] == "lost":
            raise FenceLost(f"the claim of run {claim.run_id} is lost")
        return self._prepared(row)

    async def read(self, key: AttemptKey) -> Attempt | None:
        """Read one attempt."""
        rows = await self._steps.read(
            "select {schema}.attempt_json(a) from {schema}.attempts a"
            " where a.run_id = %s and a.attempt = %s",
            key.run_id,
            key.attempt,
        )
        return attempt_from_row(_document(rows[0][0])) if rows else None

    async def bind_sandbox(
        self,
        ref: AttemptRef,
        sandbox: SandboxRef,
        suspension: DetachedSuspension,
        *,
        operation_key: str,
        why: Why | None = None,
    ) -> bool:
        """Record the sandbox on the attempt, or for cleanup when the fence is lost (C64)."""
        return await self._held(
            "bind_sandboxes",
            fence_fields(ref)
            | {
                "operation_key": operation_key,
                "provider": sandbox.provider,
                "sandbox_id": sandbox.sandbox_id,
                "routing_domain": sandbox.routing_domain,
                "suspension": suspension_to_json(suspension),
                "why": None if why is None else why_to_json(why),
            },
        )

    async def park(
        self,
        ref: AttemptRef,
        claim: Claim,
        suspension: Suspension,
        *,
        until: datetime,
        checkpoint: Checkpoint,
        silence: SilenceWatch | None,
        why: Why,
    ) -> ParkOutcome:
        """Wait, and let the engine run sleep; it is due at once if its wake has come already."""
        answer = await self._ask(
            "park",
            work_fields(ref, claim)
            | {
                "suspension": suspension_to_json(suspension),
                "checkpoint": checkpoint_to_json(checkpoint),
                "silence": optional(silence_watch_to_json, silence),
                "until": until.isoformat(),
                "why": why_to_json(why),
            },
        )
        return Parked(instant(answer["until"])) if answer["held"] else LostFence()

    async def resume(self, ref: AttemptRef, claim: Claim, checkpoint: Checkpoint) -> bool:
        """Take a waiting attempt back to running, with its checkpoint."""
        return await self._held(
            "resume",
            work_fields(ref, claim) | {"checkpoint": checkpoint_to_json(checkpoint)},
        )

    async def defer(self, claim: Claim, delay: timedelta, why: Why) -> bool:
        """Let the engine run sleep; of the run only the reason is written down."""
        return await self._held(
            "defer",
            claim_fields(claim) | {"delay_s": delay.total_seconds(), "why": why_to_json(why)},
        )

    async def retire(
        self,
        ref: AttemptRef,
        claim: Claim,
        reason: RetireReason,
        *,
        delay: timedelta,
        why: Why,
        dependency: str | None = None,
    ) -> RetireOutcome:
        """Give the attempt up and queue its run again, counting the wait for a dependency."""
        outcome = await self._retire(
            ref,
            claim,
            {
                "reason": reason.value,
                "delay_s": delay.total_seconds(),
                "bound_s": None,
                "dependency": dependency,
                "why": why_to_json(why),
            },
        )
        assert not isinstance(outcome, OutageExhausted)
        return outcome

    async def recovery(self, key: AttemptKey, dependency: str) -> PreCodeRecovery | None:
        """Read how this run has waited for a dependency."""
        rows = await self._steps.read(_RECOVERY, key.run_id, dependency)
        if not rows:
            return None
        first_failed_at, deferrals = rows[0]
        return PreCodeRecovery(instant(str(first_failed_at)), int(str(deferrals)))

    async def fail(self, ref: AttemptRef, claim: Claim, why: Why, *, reason: str) -> bool:
        """Spend the engine attempt, retiring an attempt whose runner was never bound."""
        return await self._held(
            "fail_attempts",
            work_fields(ref, claim)
            | {"reason": RetireReason.FAILED.value, "failure": reason, "why": why_to_json(why)},
        )

    async def retire_for_outage(
        self, ref: AttemptRef, claim: Claim, *, bound: timedelta, delay: timedelta, why: Why
    ) -> OutageOutcome:
        """Give the attempt up while its outage is within `bound`."""
        return await self._retire(
            ref,
            claim,
            {
                "reason": RetireReason.TOKEN_OUTAGE.value,
                "delay_s": delay.total_seconds(),
                "bound_s": bound.total_seconds(),
                "dependency": None,
                "why": why_to_json(why),
            },
        )

    async def token_obtained(self, ref: AttemptRef) -> None:
        """Break the outage chain."""
        await self._steps.write("token_obtained", fence_fields(ref))

    async def is_live(self, ref: AttemptRef) -> bool:
        """Is this attempt live under this lease token?"""
        return await self._live(ref.run_id, ref.attempt, ref.lease_token.value)

    async def key_is_live(self, key: AttemptKey) -> bool:
        """Is this attempt live?"""
        return await self._live(key.run_id, key.attempt, None)

    async def _live(self, run_id: str, attempt: int, lease_token: str | None) -> bool:
        rows = await self._steps.read(_LIVE, run_id, attempt, lease_token, lease_token)
        return bool(rows[0][0])

    async def _retire(self, ref: AttemptRef, claim: Claim, how: dict[str, Json]) -> OutageOutcome:
        answer = await self._ask("retire", work_fields(ref, claim) | how)
        if answer["outcome"] == "lost":
            return LostFence()
        started_at = optional(instant, answer["outage_started_at"])
        if answer["outcome"] == "retired":
            return Retired(started_at)
        assert started_at is not None
        return OutageExhausted(started_at)

    async def _prepare_busy(
        self, rows: Sequence[Document], request: ClaimRequest
    ) -> Sequence[Document]:
        busy = [row["claim"] for row in rows if row["kind"] == "busy"]
        if not busy:
            return rows
        try:
            again = await self._prepare(busy, request, request.placement_keys, request.worker)
        except PortError:
            again = []
        return [row for row in rows if row["kind"] != "busy"] + list(again)

    async def _prepare(
        self,
        claims: Sequence[Document],
        holder: Claim | ClaimRequest,
        placement_keys: Sequence[str],
        worker: str,
    ) -> Sequence[Document]:
        rows = await self._steps.call(
            "prepare",
            holder.lane,
            holder.owner,
            worker,
            list(placement_keys),
            Jsonb(list(claims)),
            _WAIT,
        )
        return [_document(row) for (row,) in rows]

    def _prepared(self, row: Document) -> Prepared:
        prepared = prepared_from_row(row, self._limits.created_projection_delay)
        if not isinstance(prepared, Missing):
            launch = None if isinstance(prepared, LaunchMissing) else prepared.launch
            stored = row["launch"] is not None
            count_in_passing(self._count, launch, stored=stored, caller=CLAIM)
        return prepared

    async def _ask(self, function: str, request: dict[str, Json]) -> Document:
        return _document(await self._steps.write(function, request))

    async def _held(self, function: str, request: dict[str, Json]) -> bool:
        return bool((await self._ask(function, request))["held"])


def _document(answer: Any) -> Document:
    assert isinstance(answer, dict)
    return answer


def _claim_row(claim: Claim) -> Document:
    return claim_fields(claim) | {
        "task_id": claim.task_id,
        "engine_attempt": claim.engine_attempt,
        "claimed_at": claim.claimed_at.isoformat(),
        "max_engine_attempts": claim.max_engine_attempts,
    }


def _whole_seconds(lease: timedelta) -> int:
    seconds = int(lease.total_seconds())
    assert seconds >= 1, "the engine takes no lease for one that never ends"
    return seconds
