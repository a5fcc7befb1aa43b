"""An open run whose engine task is over or gone: nobody will ever claim it (L01, L08, ENGINE §4).

What may be done depends on one question: may play code have started? If it may, nothing is done
again, and the run ends as failed with the truth about it, unless a runner may still bring its own.
If it cannot, the run gets a new task where the engine has none and attempts are left.
"""

from datetime import datetime
from typing import TypeAlias

import attrs

from deepline.core.arbitration import settle_pushed
from deepline.core.instants import iso
from deepline.core.limits import Limits
from deepline.core.model.attempt import Attempt
from deepline.core.model.json_value import Json
from deepline.core.model.result import Failed
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.model.why import Why
from deepline.core.preparation_failure import PREPARATION_FAILED
from deepline.core.recovery import LIVE, EndOutside, end_with
from deepline.core.verdicts import unreadable_ceiling_verdict

STRANDED = "RUNTIME_RUN_STRANDED:"
"""Prefix of the error of a run that its engine lost."""


@attrs.frozen(kw_only=True)
class StrandedFacts:
    """What is known of one stranded run, at the store's `now`.

    `task_state` is `None` for a missing task. `attempt` is the newest, `None` before the first.
    """

    now: datetime
    task_state: str | None
    attempt: Attempt | None
    launch_found: bool
    limits: Limits


@attrs.frozen(kw_only=True)
class EndStranded:
    """End the newest attempt, under the condition that the task still is over or gone."""

    end: EndOutside


@attrs.frozen(kw_only=True)
class CancelUnstarted:
    """No attempt ever existed: cancel under the condition that none does now (C15.R5, A30)."""

    reason: str
    why: Why


@attrs.frozen(kw_only=True)
class SpawnAgain:
    """Nothing of the play has started and the task is missing: make it again (C07.8)."""

    why: Why


@attrs.frozen(kw_only=True)
class LeaveAlone:
    """A runner may be at work, and its terminal, its proof or its ceiling will end the run."""

    why: Why


StrandedDecision: TypeAlias = EndStranded | CancelUnstarted | SpawnAgain | LeaveAlone


def settle_stranded(facts: StrandedFacts) -> StrandedDecision:
    """Decide about one stranded run.

    First its own terminal, then a runner that may live, then a play that had started; a run that
    is none of these never started.
    """
    attempt = facts.attempt
    if attempt is not None and attempt.status in LIVE:
        if attempt.runner_terminal is not None:
            pushed = settle_pushed(attempt.runner_terminal)
            return EndStranded(end=end_with(attempt, pushed.result, pushed.why))
        if isinstance(attempt.suspension, DetachedSuspension) and attempt.pending is None:
            ceiling_at = attempt.suspension.ceiling_at
            return LeaveAlone(why=_why("stranded.runner_may_live", facts, ceiling_at))
        if attempt.suspension_malformed:
            return _unreadable(facts, attempt)
    if attempt is not None and _may_have_started(attempt):
        return _failed(
            facts,
            attempt,
            "stranded.play_started",
            "its play had started, so it was not started again",
        )
    return _unstarted(facts)


def _may_have_started(attempt: Attempt) -> bool:
    """Has code of the play run: in this attempt, or before it was resumed and given up?"""
    suspended = attempt.suspension is not None or attempt.pending is not None
    return suspended or bool(attempt.checkpoint.state)


def _unreadable(facts: StrandedFacts, attempt: Attempt) -> StrandedDecision:
    """Nobody can read what it waits for; a runner may be at work until the default ceiling."""
    ceiling = facts.limits.detached_ceiling
    ceiling_at = attempt.created_at + ceiling
    if facts.now < ceiling_at:
        return LeaveAlone(why=_why("stranded.runner_may_live", facts, ceiling_at))
    verdict = unreadable_ceiling_verdict(attempt.created_at, ceiling)
    why = _why("stranded.unreadable_ceiling", facts, ceiling_at)
    return EndStranded(end=end_with(attempt, verdict, why))


def _unstarted(facts: StrandedFacts) -> StrandedDecision:
    attempt = facts.attempt
    spent = 0 if attempt is None else attempt.engine_attempt
    attempts_left = spent < facts.limits.max_engine_attempts
    if facts.task_state is None and facts.launch_found and attempts_left:
        return SpawnAgain(why=_why("stranded.spawned_again", facts))
    if attempt is None:
        why = _why("stranded.unstarted", facts)
        reason = f"{PREPARATION_FAILED}: the engine's task {_task(facts)}"
        return CancelUnstarted(reason=reason, why=why)
    return _failed(facts, attempt, "stranded.unstarted", "its play had not started")


def _failed(
    facts: StrandedFacts, attempt: Attempt, rule: str, about_the_play: str
) -> StrandedDecision:
    error = (
        f"{STRANDED} the engine's task of this run {_task(facts)} while the run was open, so no "
        f"worker could go on with it; {about_the_play}"
    )
    cause: dict[str, Json] = {
        "taskState": facts.task_state,
        "engineAttempt": attempt.engine_attempt,
        "attempt": attempt.ref.attempt,
    }
    why = _why(rule, facts)
    return EndStranded(end=end_with(attempt, Failed(error=error, cause=cause), why))


def _task(facts: StrandedFacts) -> str:
    return "is missing" if facts.task_state is None else f"was {facts.task_state}"


def _why(rule: str, facts: StrandedFacts, ceiling_at: datetime | None = None) -> Why:
    evidence: dict[str, Json] = {
        "task_state": facts.task_state,
        "attempt": 0 if facts.attempt is None else facts.attempt.ref.attempt,
        "engine_attempt": None if facts.attempt is None else facts.attempt.engine_attempt,
    }
    if ceiling_at is not None:
        evidence["ceiling_at"] = iso(ceiling_at)
    return Why(rule, evidence)
