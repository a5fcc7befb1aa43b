"""Writing the failed terminal of a dying attempt (C20, Q13, A5, A32)."""

from deepline.core import salvage as rule
from deepline.core import terminal_commit
from deepline.core.error_routing import SalvageTerminal
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.observed_terminal import ObservedTerminalSource
from deepline.ports.errors import PortError
from deepline.ports.terminals import CommitOutcome, TerminalCommit
from deepline.runtime.context import Context
from deepline.runtime.failures import failure_of
from deepline.runtime.observed import settle_observed
from deepline.runtime.settlement import Ending, after, commit_of
from deepline.runtime.supervision import CHANNEL
from deepline.runtime.troubled import Troubled


async def salvage(context: Context, action: SalvageTerminal, troubled: Troubled) -> bool:
    """Salvage if the rule says so; True when the claim is dealt with and must not be failed."""
    decision = rule.decide_salvage(
        action.failure,
        engine_attempt=troubled.claim.engine_attempt,
        max_engine_attempts=troubled.claim.max_engine_attempts,
        force=action.force,
        detached_recovery=action.detached_recovery,
    )
    match decision:
        case rule.NoSalvage():
            return False
        case rule.SalvageImpossible(message=message):
            context.ports.telemetry.error(
                CHANNEL,
                "final_attempt_salvage_failed",
                runId=troubled.claim.run_id,
                error=f"{message}; the cause: {action.failure.reason}",
            )
            return False
        case rule.Salvage():
            ending = _ending(troubled, decision)
            return await _write(context, ending, troubled)


def _ending(troubled: Troubled, decision: rule.Salvage) -> Ending:
    own = troubled.suspension if isinstance(troubled.suspension, DetachedSuspension) else None
    plan = terminal_commit.CommitPlan(
        before=(terminal_commit.BeforeCommit.READ_SETTLED_COUNTS,),
        result=decision.result,
        from_waiting=decision.detached_recovery,
        preserve_runner_terminal=decision.detached_recovery,
        keep_log_tail=decision.detached_recovery,
        request_crash_diagnostic=False,
        why=decision.why,
    )
    return Ending(
        launch=troubled.launch,
        claim=troubled.claim,
        ref=troubled.attempt.ref,
        plan=plan,
        suspension=own,
    )


async def _write(context: Context, ending: Ending, troubled: Troubled) -> bool:
    """Write with a few tries; before each further one look whether it still is ours to write."""
    commit = await commit_of(context, ending)
    failed_writes = 0
    while True:
        outcome = await _try_once(context, commit)
        if not isinstance(outcome, PortError):
            await after(context, ending, outcome)
            return True
        failed_writes += 1
        decision = rule.after_failed_write(
            failure_of(outcome),
            failed_writes=failed_writes,
            keep_delay=context.limits.preparation_delay,
        )
        match decision:
            case rule.TryAgain(delay=delay):
                await context.ports.clock.sleep(delay)
                if await _is_over(context, troubled):
                    return True
            case rule.StopObserved():
                await _observed(context, troubled, None)
                return True
            case rule.KeepFinalAttempt(delay=delay, why=why):
                await context.persistence.write(
                    "defer", lambda: context.ports.attempts.defer(troubled.claim, delay, why)
                )
                return True
            case rule.SalvageFailed(reason=reason):
                context.ports.telemetry.error(
                    CHANNEL,
                    "final_attempt_salvage_failed",
                    runId=troubled.claim.run_id,
                    error=reason,
                )
                return False


async def _try_once(context: Context, commit: TerminalCommit) -> CommitOutcome | PortError:
    try:
        return await context.ports.terminals.commit(commit)
    except PortError as error:
        return error


async def _is_over(context: Context, troubled: Troubled) -> bool:
    ref = troubled.attempt.ref
    try:
        status = await context.ports.terminals.status(ref.run_id)
        held = await context.ports.attempts.is_live(ref)
    except PortError:
        return False  # nothing learnt: the fence of the next write decides
    decision = rule.before_retry(status, fence_held=held)
    if isinstance(decision, rule.StopObserved):
        await _observed(context, troubled, status)
        return True
    return False


async def _observed(context: Context, troubled: Troubled, status: RunStatus | None) -> None:
    await settle_observed(
        context, troubled.claim.run_id, ObservedTerminalSource.SALVAGE_CONFLICT, status
    )
