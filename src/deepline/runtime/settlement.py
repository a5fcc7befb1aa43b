"""Ending a run: what comes before the commit, the commit, and what follows (C21, C22, C24, C27).

Terminal truth is durable once the commit is answered. Nothing after it may turn a committed
terminal into an error of the worker (I30).
"""

import attrs
import trio

from deepline.core import canary, projection, release, settled_counts, sheet_outcomes
from deepline.core import terminal_commit as rule
from deepline.core.model.claim import Claim
from deepline.core.model.identity import AttemptRef
from deepline.core.model.launch import Launch
from deepline.core.model.ledger import SettledProgress
from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.result import RunnerTerminal
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.placement import named_policy
from deepline.ports.errors import PortError
from deepline.ports.terminals import CommitOutcome, Committed, TerminalCommit
from deepline.runtime.context import Context, key_of
from deepline.runtime.ending_context import EndingContext
from deepline.runtime.events import emit
from deepline.runtime.measures import tell_end
from deepline.runtime.observed import settle_observed
from deepline.runtime.release import release_attempt
from deepline.runtime.supervision import text_of


class UnexpectedTerminal(Exception):
    """The store committed something that is no end of a run: a bug of ours."""


@attrs.frozen(kw_only=True)
class Ending:
    """One run about to end. `suspension` is the attempt's own detached runner, if there was one.

    Without its launch a run still ends; what only the launch can tell is left out.
    """

    launch: Launch | None
    claim: Claim | None
    ref: AttemptRef
    plan: rule.CommitPlan
    suspension: DetachedSuspension | None = None


async def settle(context: Context, ending: Ending) -> None:
    """Commit the end while the claim lasts, then project it or settle what others wrote."""
    commit = await commit_of(context, ending)
    outcome = await context.persistence.write(
        "commit", lambda: context.ports.terminals.commit(commit)
    )
    await after(context, ending, outcome)


async def commit_of(context: EndingContext, ending: Ending) -> TerminalCommit:
    """Do what comes before the commit, best effort, and build it."""
    plan = ending.plan
    progress: tuple[SettledProgress, ...] = ()
    for step in plan.before:
        match step:
            case rule.BeforeCommit.REPORT_CANARY:
                _report_canary(context, ending, plan.result)
            case rule.BeforeCommit.READ_SETTLED_COUNTS:
                progress = await _settled_counts(context, ending)
    return TerminalCommit(
        ref=ending.ref,
        claim=ending.claim,
        result=plan.result,
        why=plan.why,
        from_waiting=plan.from_waiting,
        preserve_runner_terminal=plan.preserve_runner_terminal,
        settled_progress=progress,
        keep_log_tail=plan.keep_log_tail,
        request_crash_diagnostic=plan.request_crash_diagnostic,
    )


async def after(context: EndingContext, ending: Ending, outcome: CommitOutcome) -> None:
    """Follow a commit's answer. Raises `UnexpectedTerminal` alone, and only for a broken store."""
    key = key_of(ending.ref)
    committed = outcome if isinstance(outcome, Committed) else None
    answer = rule.after_commit(
        key,
        outcome.status,
        None if committed is None else committed.committed_at,
        detached=ending.suspension is not None,
    )
    match answer:
        case rule.UnexpectedStatus(message=message):
            raise UnexpectedTerminal(message)
        case rule.SettleObserved(source=source, status=status):
            await release_attempt(context, ending.ref, release.after_fence_lost())
            await settle_observed(context, key.run_id, source, status)
        case rule.Project(status=status, event=event):
            emit(context.ports.telemetry, event)
            tell_end(
                context.ports.telemetry,
                status,
                ending.plan.why,
                launch=ending.launch,
                ended_at=None if committed is None else committed.committed_at,
            )
            await project(context, ending, status)


async def project(context: EndingContext, ending: Ending, status: RunStatus) -> None:
    """Do what follows a committed terminal; each step is best effort (C24)."""
    if context.cleanup is not None:
        context.cleanup.wake()
    started_at = projection.projection_start(None, context.ports.clock.now())
    for step in projection.after_committed(status):
        match step:
            case projection.ProjectionStep.RELEASE_FAILED_ATTEMPT:
                await release_attempt(context, ending.ref, release.after_failed_terminal())
            case projection.ProjectionStep.REQUEST_DISPATCH if context.dispatcher is not None:
                context.dispatcher.request_terminal(
                    ending.ref.run_id,
                    trigger=projection.COMMITTED_TRIGGER,
                    projection_started_at=started_at,
                )
            case _:
                # The sheets are the store's own account here, so there is no reporter to reconcile.
                pass


def _report_canary(context: EndingContext, ending: Ending, result: RunnerTerminal) -> None:
    if ending.suspension is None or ending.launch is None:
        return
    event = canary.detached_terminal(
        ending.launch,
        _policy(context, ending.launch),
        key_of(ending.ref),
        ending.suspension,
        result,
        production=context.production,
    )
    if event is not None:
        emit(context.ports.telemetry, event)


def _policy(context: EndingContext, launch: Launch) -> PlacementPolicy | None:
    wanted = named_policy(launch)
    return next((one for one in context.policies if one.policy_id == wanted), None)


async def _settled_counts(context: EndingContext, ending: Ending) -> tuple[SettledProgress, ...]:
    key = key_of(ending.ref)
    wanted = () if ending.launch is None else sheet_outcomes.namespaces(ending.launch)
    problem = "no answer in time"
    with trio.move_on_after(context.limits.settled_counts_read.total_seconds()):
        try:
            names = wanted or await context.ports.sheets.namespaces(key.run_id)
            counts = await context.ports.sheets.settled(key, names)
        except PortError as error:
            problem = text_of(error)
        else:
            return settled_counts.settled_progress(key, counts, context.ports.clock.now())
    emit(context.ports.telemetry, settled_counts.read_failed(key, problem))
    return ()
