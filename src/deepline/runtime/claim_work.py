"""Working one claim from what was prepared to its next durable step (C12–C21, C27)."""

from contextlib import AbstractContextManager
from datetime import timedelta

import attrs
import trio

from deepline.core import error_routing, parking, terminal_commit
from deepline.core.failures import OtherFailure
from deepline.core.instants import length_ms
from deepline.core.model.attempt import Attempt, AttemptStatus, RetireReason
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.claim import (
    AlreadyTerminal,
    Claim,
    CreatedPending,
    Exhausted,
    Fresh,
    LaunchMissing,
    Misplaced,
    Missing,
    Prepared,
    Wake,
)
from deepline.core.model.launch import Launch
from deepline.core.model.result import Failed, RunnerResult, Suspended
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.model.why import Why
from deepline.core.observed_terminal import ObservedTerminalSource
from deepline.core.preparation_failure import PREPARATION_FAILED
from deepline.ports.backend import HandoffFailed
from deepline.runtime.context import Context, key_of
from deepline.runtime.error_path import ErrorPath
from deepline.runtime.failures import failure_of
from deepline.runtime.measures import tell_start
from deepline.runtime.observed import settle_observed
from deepline.runtime.parked import park_attempt
from deepline.runtime.preparation import Preparation
from deepline.runtime.settlement import Ending, settle
from deepline.runtime.store_time import StoreTime
from deepline.runtime.supervision import CHANNEL, must_finish, text_of
from deepline.runtime.troubled import Troubled
from deepline.runtime.wake import WakeHandling


@attrs.define(eq=False)
class ClaimWork:
    """What a worker does with one claim; the caller holds the claim's scope around it."""

    context: Context
    preparation: Preparation = attrs.field(init=False)
    wakes: WakeHandling = attrs.field(init=False)
    errors: ErrorPath = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Bind the parts to the context."""
        self.preparation = Preparation(self.context)
        self.wakes = WakeHandling(self.context, self._resume)
        self.errors = ErrorPath(self.context)

    async def work(self, prepared: Prepared) -> None:
        """Bring the claim to its next durable step. Raises only when cancelled.

        An error of ours spends the engine attempt, so that it is seen and bounded.
        """
        time = self.context.store_time(prepared.claim)
        try:
            await self._work(prepared, time)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run must not hang on it
            reason = f"{type(error).__name__}: {text_of(error)}"
            self.context.ports.telemetry.error(
                CHANNEL,
                "claim_work_failed",
                runId=prepared.claim.run_id,
                error=reason,
            )
            await self.context.persistence.write(
                "fail",
                lambda: self.context.ports.engine.fail(prepared.claim, reason),
            )

    async def _work(self, prepared: Prepared, time: StoreTime) -> None:
        match prepared:
            case Fresh():
                await self._fresh(prepared, time)
            case Wake():
                with self._span("deepline.wake", prepared.launch, prepared.attempt) as parent:
                    launch = attrs.evolve(prepared.launch, trace_parent=parent)
                    await self._wake(attrs.evolve(prepared, launch=launch), time)
            case CreatedPending():
                again = await self.preparation.created(prepared)
                if again is not None:
                    await self._work(again, time)
            case Misplaced():
                await self.preparation.misplaced(prepared)
            case Exhausted():
                await self._exhausted(prepared, time)
            case AlreadyTerminal(claim=claim, status=status):
                source = ObservedTerminalSource.ATTEMPT_PREPARATION
                await settle_observed(self.context, claim.run_id, source, status)
                await self._complete(claim)
            case Missing(claim=claim):
                self.context.ports.telemetry.warn(CHANNEL, "run_missing", runId=claim.run_id)
                await self._complete(claim)
            case LaunchMissing(claim=claim):
                failure = OtherFailure(reason=f"run {claim.run_id} has no launch row")
                await self.preparation.failed(claim, None, failure)

    async def _complete(self, claim: Claim) -> None:
        await self.context.persistence.write(
            "complete", lambda: self.context.ports.engine.complete(claim)
        )

    async def _fresh(self, fresh: Fresh, time: StoreTime) -> None:
        tell_start(self.context.ports.telemetry, fresh)
        with self._span("deepline.attempt", fresh.launch, fresh.attempt) as parent:
            launch = attrs.evolve(fresh.launch, trace_parent=parent)
            await self._execute(launch, fresh.attempt, fresh.claim, time)

    def _span(
        self, name: str, launch: Launch, attempt: Attempt
    ) -> AbstractContextManager[str | None]:
        return self.context.ports.tracing.span(
            name,
            parent=launch.trace_parent,
            attributes={
                "deepline.run_id": launch.run_id,
                "deepline.attempt": attempt.ref.attempt,
                "deepline.play": launch.play_name,
            },
        )

    async def _resume(self, wake: Wake, checkpoint: Checkpoint) -> None:
        """Go on with a suspended play: its attempt runs again under its own fence (C29.2)."""
        kept = await self.context.persistence.write(
            "resume",
            lambda: self.context.ports.attempts.resume(wake.attempt.ref, wake.claim, checkpoint),
        )
        if not kept:
            source = ObservedTerminalSource.DETACHED_WAKE
            await settle_observed(self.context, wake.claim.run_id, source, None)
            return
        attempt = attrs.evolve(
            wake.attempt, status=AttemptStatus.RUNNING, checkpoint=checkpoint, suspension=None
        )
        time = self.context.store_time(wake.claim)
        await self._execute(wake.launch, attempt, wake.claim, time)

    async def _execute(
        self, launch: Launch, attempt: Attempt, claim: Claim, time: StoreTime
    ) -> None:
        """Run an attempt and bring its result to durability, or route its error."""
        troubled = Troubled(claim=claim, launch=launch, attempt=attempt, suspension=None, time=time)
        try:
            result = await self._bounded(launch, attempt, claim)
            self.context.slots.pass_on(claim)
            if isinstance(result, Suspended) and isinstance(result.suspension, DetachedSuspension):
                troubled = attrs.evolve(troubled, suspension=result.suspension)
            await self._conclude(troubled, result)
        except trio.Cancelled:
            await self._hand_over(troubled)  # noqa: ASYNC102 - shielded and bounded inside
            raise
        except HandoffFailed as error:
            await self._handoff_failed(troubled, error)
        except Exception as error:  # noqa: BLE001 - C19 routes every error of an execution
            situation = error_routing.situation_of(
                runner_started_here=troubled.suspension is not None, detached_wake=False
            )
            await self.errors.follow(failure_of(error), situation, troubled)

    async def _bounded(self, launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        """Execute under the ceiling of an attached run; a detached one comes back at once."""
        ceiling = launch.ceiling or self.context.limits.detached_ceiling
        with trio.move_on_after(ceiling.total_seconds()):
            return await self.context.ports.backend.execute(launch, attempt, claim)
        return Failed(
            error=f"RUNTIME_LIMIT_EXCEEDED: the run took longer than its ceiling of {ceiling}",
            cause={"limit": "attached_ceiling", "ceilingMs": length_ms(ceiling)},
        )

    async def _conclude(self, troubled: Troubled, result: RunnerResult) -> None:
        match terminal_commit.after_result(result):
            case terminal_commit.ParkSuspended(suspension=suspension):
                park = parking.park(
                    troubled.time.now(),
                    suspension,
                    troubled.attempt.liveness,
                    parking.carry_over(troubled.attempt.checkpoint, result.report.checkpoint),
                    self.context.limits,
                )
                await park_attempt(
                    self.context, troubled.claim, troubled.attempt.ref, suspension, park
                )
            case terminal_commit.CommitPlan() as plan:
                await settle(
                    self.context,
                    Ending(
                        launch=troubled.launch,
                        claim=troubled.claim,
                        ref=troubled.attempt.ref,
                        plan=plan,
                    ),
                )

    async def _wake(self, wake: Wake, time: StoreTime) -> None:
        suspension = wake.attempt.suspension
        own = suspension if isinstance(suspension, DetachedSuspension) else None
        troubled = Troubled(
            claim=wake.claim, launch=wake.launch, attempt=wake.attempt, suspension=own, time=time
        )
        try:
            await self.wakes.handle(wake, time)
        except trio.Cancelled:
            await self._put_back(wake.claim)  # noqa: ASYNC102 - shielded and bounded inside
            raise
        except HandoffFailed as error:
            await self._handoff_failed(troubled, error)
        except Exception as error:  # noqa: BLE001 - C19 routes every error of a wake
            await self.errors.follow(failure_of(error), error_routing.Situation.WAKE, troubled)

    async def _handoff_failed(self, troubled: Troubled, error: HandoffFailed) -> None:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        await self.errors.follow(
            failure_of(cause),
            error_routing.Situation.HANDOFF,
            attrs.evolve(troubled, suspension=error.suspension),
        )

    async def _exhausted(self, prepared: Exhausted, time: StoreTime) -> None:
        """A finaliser: nothing is executed any more, only the end is brought about."""
        claim, attempt = prepared.claim, prepared.attempt
        if attempt is not None and isinstance(attempt.suspension, DetachedSuspension):
            # Its runner may be alive; only its own terminal, proof or the ceiling ends it.
            await self._wake(Wake(claim=claim, launch=prepared.launch, attempt=attempt), time)
            return
        live = attempt is not None and attempt.status in {
            AttemptStatus.RUNNING,
            AttemptStatus.WAITING,
        }
        reason = f"engine attempts are used up ({claim.max_engine_attempts})"
        if attempt is not None and live:
            troubled = Troubled(
                claim=claim, launch=prepared.launch, attempt=attempt, suspension=None, time=time
            )
            failure = OtherFailure(reason=reason)
            await self.errors.follow(failure, error_routing.Situation.WAKE, troubled)
            return
        await self.context.persistence.write(
            "cancel",
            lambda: self.context.ports.terminals.cancel(
                claim.run_id,
                by="runtime",
                reason=f"{PREPARATION_FAILED}: {reason}",
                why=Why("preparation.exhausted", {"engine_attempt": claim.engine_attempt}),
            ),
        )

    async def _hand_over(self, troubled: Troubled) -> None:
        """Cut short while executing: let another worker have the run at once, if it may.

        Every write is fenced, so it does nothing where the claim or the attempt is lost already.
        """
        claim, ref = troubled.claim, troubled.attempt.ref
        with must_finish(self.context.limits.last_write.total_seconds()):
            try:
                attempt = await self.context.ports.attempts.read(key_of(ref))
                if attempt is None or attempt.suspension is not None:
                    await self._put_back_now(claim)
                    return
                await self.context.ports.attempts.retire(
                    ref,
                    claim,
                    RetireReason.HANDED_OVER,
                    delay=timedelta(0),
                    why=Why("handover.retired", {"worker": self.context.worker}),
                )
            except Exception as error:  # noqa: BLE001 - the lease runs out instead
                self._handover_failed(claim, error)

    async def _put_back(self, claim: Claim) -> None:
        with must_finish(self.context.limits.last_write.total_seconds()):
            try:
                await self._put_back_now(claim)
            except Exception as error:  # noqa: BLE001 - the lease runs out instead
                self._handover_failed(claim, error)

    async def _put_back_now(self, claim: Claim) -> None:
        why = Why("handover.deferred", {"worker": self.context.worker})
        await self.context.ports.attempts.defer(claim, timedelta(0), why)

    def _handover_failed(self, claim: Claim, error: Exception) -> None:
        self.context.ports.telemetry.warn(
            CHANNEL, "handover_failed", runId=claim.run_id, error=text_of(error)
        )
