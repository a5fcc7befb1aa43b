"""Carrying out the ordered actions that follow an error (C15, C17–C20, C53, C54).

`core.error_routing` says what to do in which order; here each action is done. A question may
end the list early. Whatever happens, the original error is never lost: it is what the engine
attempt fails with.
"""

from datetime import timedelta
from typing import assert_never

import attrs
import trio

from deepline.core import (
    capacity_deferral,
    error_routing,
    pre_code,
    release,
    store_outage,
    token_outage,
)
from deepline.core.error_routing import Action
from deepline.core.failures import Failure, TokenOutage
from deepline.core.instants import length_ms, to_ms
from deepline.core.model.attempt import RetireReason
from deepline.core.model.claim import Claim
from deepline.core.model.json_value import Json
from deepline.core.model.why import Why
from deepline.core.observed_terminal import ObservedTerminalSource
from deepline.ports.attempts import LostFence, OutageExhausted, Retired
from deepline.runtime.context import Context, key_of
from deepline.runtime.observed import settle_observed
from deepline.runtime.release import release_attempt
from deepline.runtime.salvage import salvage
from deepline.runtime.supervision import CHANNEL
from deepline.runtime.troubled import Troubled


@attrs.frozen(eq=False)
class ErrorPath:
    """Does what a route says."""

    context: Context

    async def follow(
        self, failure: Failure, situation: error_routing.Situation, troubled: Troubled
    ) -> None:
        """Route one error and carry the actions out from left to right."""
        route = error_routing.route_error(
            failure, situation, handoff_delay=self.context.limits.handoff_delay
        )
        self.context.ports.telemetry.info(
            CHANNEL,
            "attempt_error_routed",
            runId=troubled.claim.run_id,
            generation=troubled.attempt.ref.attempt,
            rule=route.why.rule,
            reason=failure.reason,
        )
        collect = False
        for action in route.actions:
            collect = collect or isinstance(action, error_routing.CollectSandbox)
            if not await self._goes_on(action, route.why, troubled):
                break
        if collect:
            # Its obligation is durable by now: it rode the commit that ended the attempt.
            with trio.move_on_after(self.context.limits.sandbox_delete.total_seconds()):
                await self.context.cleanup.delete_now(key_of(troubled.attempt.ref))

    async def _goes_on(self, action: Action, why: Why, troubled: Troubled) -> bool:
        """Do one action; False when it ended the list."""
        match action:
            case error_routing.PassSignal() | error_routing.ReleaseAttempt():
                return False
            case error_routing.SettleObserved():
                await self._observed(troubled)
                return False
            case error_routing.AskRun():
                return await self._still_ours(troubled)
            case error_routing.AskCapacity():
                await self._capacity(action, troubled)
                return False
            case error_routing.AskPreCode() | error_routing.AskOutage() | error_routing.AskStore():
                return not await self._put_off(action, troubled)
            case error_routing.WithholdCleanup():
                self.context.ports.telemetry.info(
                    CHANNEL,
                    "cleanup_withheld",
                    runId=troubled.claim.run_id,
                    generation=troubled.attempt.ref.attempt,
                    cleanupAuthorized=False,
                )
                return True
            case error_routing.DeferHandoff(delay=delay):
                await self._defer(troubled.claim, delay, why)
                return False
            case error_routing.PersistCleanup() | error_routing.CollectSandbox():
                return True  # the obligation rides the next commit; the delete comes after it
            case error_routing.SalvageTerminal():
                return not await salvage(self.context, action, troubled)
            case error_routing.FailEngineAttempt(reason=reason):
                await self.context.persistence.write(
                    "fail",
                    lambda: self.context.ports.attempts.fail(
                        troubled.attempt.ref, troubled.claim, why, reason=reason
                    ),
                )
                return True
            case _:
                assert_never(action)

    async def _put_off(
        self,
        ask: error_routing.AskPreCode | error_routing.AskOutage | error_routing.AskStore,
        troubled: Troubled,
    ) -> bool:
        """Wait for what was away, if its rule says so; True when the claim is dealt with."""
        match ask:
            case error_routing.AskPreCode(failure=failure):
                return await self._pre_code(failure, troubled)
            case error_routing.AskOutage(failure=outage, detached=detached):
                wait = self._detached_outage if detached else self._fresh_outage
                return await wait(outage, troubled)
            case error_routing.AskStore(failure=away):
                return await self._store_outage(away, troubled)

    async def _observed(self, troubled: Troubled) -> None:
        ref = troubled.attempt.ref
        await release_attempt(self.context, ref, release.after_fence_lost())
        await settle_observed(self.context, ref.run_id, ObservedTerminalSource.FENCE_LOST, None)

    async def _still_ours(self, troubled: Troubled) -> bool:
        live = await self.context.persistence.write(
            "read", lambda: self.context.ports.attempts.is_live(troubled.attempt.ref)
        )
        if not live:
            await self._observed(troubled)
        return live

    async def _defer(self, claim: Claim, delay: timedelta, why: Why) -> None:
        await self.context.persistence.write(
            "defer", lambda: self.context.ports.attempts.defer(claim, delay, why)
        )

    async def _capacity(self, ask: error_routing.AskCapacity, troubled: Troubled) -> None:
        decision = capacity_deferral.defer_for_capacity(
            ask.failure, fresh_attempt=ask.fresh_attempt, chance=self.context.chance.random()
        )
        self.context.ports.telemetry.count("deferrals", reason="capacity")
        if isinstance(decision, capacity_deferral.DeferForCapacity):
            await self._defer(troubled.claim, decision.delay, decision.why)
            return
        outcome = await self.context.persistence.write(
            "retire",
            lambda: self.context.ports.attempts.retire(
                troubled.attempt.ref,
                troubled.claim,
                RetireReason.CAPACITY,
                delay=decision.delay,
                why=decision.why,
            ),
        )
        if isinstance(outcome, LostFence):
            await self._observed(troubled)

    async def _pre_code(self, failure: Failure, troubled: Troubled) -> bool:
        """Wait for a dependency if the rule says so; True when deferred."""
        attempts, ref = self.context.ports.attempts, troubled.attempt.ref
        named = getattr(failure, "dependency", "")
        known = await self.context.persistence.write(
            "read", lambda: attempts.recovery(key_of(ref), named)
        )
        decision = pre_code.decide_pre_code(
            failure,
            play_may_have_started=troubled.suspension is not None,
            first_failed_at=None if known is None else known.first_failed_at,
            deferrals=0 if known is None else known.deferrals,
            now=troubled.time.now(),
            schedule=pre_code.PreCodeSchedule(),
        )
        if not isinstance(decision, pre_code.PreCodeDeferred):
            return False
        self.context.ports.telemetry.count("deferrals", reason="pre_code")
        self.context.ports.telemetry.warn(
            CHANNEL,
            "pre_code_recovery_deferred",
            runId=ref.run_id,
            generation=ref.attempt,
            dependency=decision.dependency,
            reason=decision.cause,
            deadlineAtMs=to_ms(decision.deadline),
            delaySeconds=decision.delay.total_seconds(),
            detail=decision.detail,
            providerText=decision.provider_text,
        )
        outcome = await self.context.persistence.write(
            "retire",
            lambda: attempts.retire(
                ref,
                troubled.claim,
                RetireReason.PRE_CODE,
                delay=decision.delay,
                why=decision.why,
                dependency=named,
            ),
        )
        if isinstance(outcome, LostFence):
            await self._observed(troubled)
        return True

    async def _fresh_outage(self, failure: TokenOutage, troubled: Troubled) -> bool:
        """C17: the store decides by its clock and the carried start; True when deferred or lost."""
        ref, limits = troubled.attempt.ref, self.context.limits
        # What the store will decide, for the words of the reason; its own clock has the last one.
        expected = token_outage.outage_of_fresh_attempt(
            troubled.time.now(),
            troubled.attempt.outage_started_at,
            longest=limits.token_outage_max,
            delay=limits.token_outage_delay,
        )
        outcome = await self.context.persistence.write(
            "retire_for_outage",
            lambda: self.context.ports.attempts.retire_for_outage(
                ref,
                troubled.claim,
                bound=limits.token_outage_max,
                delay=limits.token_outage_delay,
                why=expected.why,
            ),
        )
        match outcome:
            case Retired(outage_started_at=started):
                self.context.ports.telemetry.count("deferrals", reason="token_outage")
                self.context.ports.telemetry.warn(
                    CHANNEL,
                    "executor_token_outage_deferred",
                    runId=ref.run_id,
                    generation=ref.attempt,
                    detachedRecovery=False,
                    status=failure.status,
                    outageStartedAtMs=None if started is None else to_ms(started),
                    delaySeconds=limits.token_outage_delay.total_seconds(),
                )
                return True
            case OutageExhausted(outage_started_at=start):
                self.context.ports.telemetry.error(
                    CHANNEL,
                    "executor_token_outage_bound_exhausted",
                    runId=ref.run_id,
                    generation=ref.attempt,
                    detachedRecovery=False,
                    status=failure.status,
                    outageStartedAtMs=to_ms(start),
                    maxOutageMs=length_ms(limits.token_outage_max),
                )
                return False
            case LostFence():
                await self._observed(troubled)
                return True

    async def _detached_outage(self, failure: TokenOutage, troubled: Troubled) -> bool:
        """C18: write only the engine's delay, until the runner's ceiling; True when deferred."""
        ref, suspension = troubled.attempt.ref, troubled.suspension
        ceiling_at = None if suspension is None else suspension.ceiling_at
        decision = token_outage.outage_of_detached_wake(
            troubled.time.now(),
            ceiling_at,
            longest_delay=self.context.limits.token_outage_delay,
        )
        deferred = isinstance(decision, token_outage.OutageDeferred)
        log = self.context.ports.telemetry.warn if deferred else self.context.ports.telemetry.error
        fields: dict[str, Json] = {
            "runId": ref.run_id,
            "generation": ref.attempt,
            "detachedRecovery": True,
            "status": failure.status,
            "deadlineMs": None if ceiling_at is None else to_ms(ceiling_at),
        }
        if isinstance(decision, token_outage.OutageDeferred):
            fields["delaySeconds"] = int(decision.delay.total_seconds())
            log(CHANNEL, "executor_token_outage_deferred", **fields)
            await self._defer(troubled.claim, decision.delay, decision.why)
            return True
        log(CHANNEL, "executor_token_outage_bound_exhausted", **fields)
        return False

    async def _store_outage(self, failure: Failure, troubled: Troubled) -> bool:
        """C15 on a wake: write only the engine's delay; True when deferred."""
        ref, suspension, limits = troubled.attempt.ref, troubled.suspension, self.context.limits
        decision = store_outage.outage_of_wake(
            troubled.time.now(),
            None if suspension is None else suspension.ceiling_at,
            runner_delay=limits.token_outage_delay,
            delay=limits.preparation_delay,
        )
        if not isinstance(decision, store_outage.StoreAwaited):
            return False
        self.context.ports.telemetry.count("deferrals", reason="wake")
        self.context.ports.telemetry.warn(
            CHANNEL,
            "wake_deferred",
            runId=ref.run_id,
            generation=ref.attempt,
            reason=failure.reason,
            deadlineMs=None if decision.deadline is None else to_ms(decision.deadline),
            delaySeconds=int(decision.delay.total_seconds()),
        )
        await self._defer(troubled.claim, decision.delay, decision.why)
        return True
