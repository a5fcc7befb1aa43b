"""What to do when preparing an attempt must wait or goes wrong (C13, C14, C15).

Preparation comes before the attempt, so nothing later can settle the run if this does not.
"""

from datetime import timedelta

import attrs

from deepline.core import capacity_deferral, created_projection, placement
from deepline.core import preparation_failure as rule
from deepline.core.failures import CapacityFailure, Failure, OtherFailure
from deepline.core.model.claim import Claim, CreatedPending, Misplaced, Prepared
from deepline.core.model.identity import ReleaseId
from deepline.core.model.run import RunStatus
from deepline.core.model.why import Why
from deepline.ports.errors import PortError
from deepline.ports.terminals import Cancelled, Unstarted
from deepline.runtime.context import Context
from deepline.runtime.failures import failure_of
from deepline.runtime.measures import tell_end
from deepline.runtime.supervision import CHANNEL


@attrs.frozen(eq=False)
class Preparation:
    """Carries out the rules about claims that have no attempt yet."""

    context: Context

    async def created(self, pending: CreatedPending) -> Prepared | None:
        """Get the created fact acknowledged and prepare again; `None` when the claim was let go.

        Whoever finds the fact undelivered delivers it at once, so the wait is normally nil.
        """
        claim = pending.claim
        prepared: Prepared = pending
        try:
            signalled = await self._acknowledged(claim)
            if signalled:
                prepared = await self.context.ports.attempts.prepare(
                    claim,
                    placement_keys=self.context.placement.keys,
                    worker=self.context.worker,
                )
        except PortError as error:
            await self.failed(claim, pending.launch.release_id, failure_of(error))
            return None
        decision = created_projection.after_preparation(
            claim.run_id,
            pending=isinstance(prepared, CreatedPending),
            signalled=signalled,
            delay=pending.retry_after,
        )
        match decision:
            case created_projection.Proceed():
                return prepared
            case created_projection.AwaitCreated(delay=delay, why=why):
                await self.defer(claim, delay, why)
            case created_projection.CreatedContradiction(message=message):
                await self.failed(claim, pending.launch.release_id, OtherFailure(reason=message))
        return None

    async def misplaced(self, prepared: Misplaced) -> None:
        """Leave the run to a worker that can run it (C14)."""
        decision = placement.gate(
            prepared.launch,
            self.context.placement.backend,
            self.context.placement.policies,
            delay=self.context.limits.placement_delay,
        )
        # The store compared keys and the gate compares policies; should they ever disagree,
        # waiting is what harms nobody.
        delay = getattr(decision, "delay", self.context.limits.placement_delay)
        self.context.ports.telemetry.count("deferrals", reason="placement")
        await self.defer(prepared.claim, delay, decision.why)

    async def failed(self, claim: Claim, release_id: ReleaseId | None, failure: Failure) -> None:
        """Follow the table of C15 for a failed preparation."""
        decision = rule.after_preparation_failure(
            failure,
            engine_attempt=claim.engine_attempt,
            max_engine_attempts=claim.max_engine_attempts,
            delay=self.context.limits.preparation_delay,
        )
        match decision:
            case rule.PassSignal() | rule.LeaveToHolder():
                return
            case rule.SettleUnstarted():
                await self._settle_unstarted(claim, release_id, decision)
            case _:
                await self._let_go(claim, decision)

    async def defer(self, claim: Claim, delay: timedelta, why: Why) -> None:
        """Put the engine run off, spending no attempt."""
        await self.context.persistence.write(
            "defer", lambda: self.context.ports.attempts.defer(claim, delay, why)
        )

    async def _acknowledged(self, claim: Claim) -> bool:
        dispatcher = self.context.dispatcher
        return dispatcher is not None and await dispatcher.acknowledge_created(claim.run_id)

    async def _let_go(
        self,
        claim: Claim,
        decision: rule.PassCapacity | rule.DeferPreparation | rule.SpendEngineAttempt,
    ) -> None:
        match decision:
            case rule.PassCapacity(failure=failure):
                await self._capacity(claim, failure)
            case rule.DeferPreparation(delay=delay, reason=reason, why=why):
                self.context.ports.telemetry.count("deferrals", reason="preparation")
                self.context.ports.telemetry.warn(
                    CHANNEL, "attempt_preparation_deferred", runId=claim.run_id, reason=reason
                )
                await self.defer(claim, delay, why)
            case rule.SpendEngineAttempt(reason=reason):
                await self.context.persistence.write(
                    "fail", lambda: self.context.ports.engine.fail(claim, reason)
                )

    async def _capacity(self, claim: Claim, failure: CapacityFailure) -> None:
        decision = capacity_deferral.defer_for_capacity(
            failure, fresh_attempt=False, chance=self.context.chance.random()
        )
        self.context.ports.telemetry.count("deferrals", reason="capacity")
        await self.defer(claim, decision.delay, decision.why)

    async def _settle_unstarted(
        self, claim: Claim, release_id: ReleaseId | None, decision: rule.SettleUnstarted
    ) -> None:
        try:
            outcome = await self.context.ports.terminals.cancel_unstarted(
                claim.run_id,
                Unstarted(release_id=release_id, task_id=claim.task_id),
                reason=decision.cancel_reason,
                why=decision.why,
            )
        except PortError as error:
            await self._settlement_failed(claim, decision, failure_of(error))
            return
        self.context.ports.telemetry.error(
            CHANNEL,
            "attempt_preparation_exhausted",
            runId=claim.run_id,
            reason=decision.reason,
            cancelled=isinstance(outcome, Cancelled),
        )
        if isinstance(outcome, Cancelled):
            tell_end(
                self.context.ports.telemetry,
                RunStatus.CANCELLED,
                decision.why,
                launch=None,
                ended_at=None,
            )
        else:
            await self.context.persistence.write(
                "fail", lambda: self.context.ports.engine.fail(claim, decision.reason)
            )

    async def _settlement_failed(
        self, claim: Claim, decision: rule.SettleUnstarted, failure: Failure
    ) -> None:
        self.context.ports.telemetry.error(
            CHANNEL,
            "attempt_preparation_settlement_failed",
            runId=claim.run_id,
            reason=decision.reason,
            error=failure.reason,
        )
        await self._let_go(
            claim,
            rule.after_settlement_failure(
                failure, decision.reason, delay=self.context.limits.preparation_delay
            ),
        )
