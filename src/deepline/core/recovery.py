"""Settling runner terminals whose worker died before it could (C35, A15, I03, I49).

Everything settled outside a claim goes the same way: a decision, one commit under the attempt's
fence, and `after_commit` to say what the store's answer means. The overdue and the stranded passes
share that end.
"""

from typing import TypeAlias

import attrs

from deepline.core import terminal_commit
from deepline.core.model.attempt import Attempt, AttemptStatus
from deepline.core.model.identity import AttemptKey
from deepline.core.model.result import RunnerTerminal
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import DetachedSuspension, Suspension
from deepline.core.model.why import Why
from deepline.core.outcome import outcome_evidence
from deepline.core.terminal_commit import CommitPlan

LIVE = frozenset({AttemptStatus.RUNNING, AttemptStatus.WAITING})


@attrs.frozen(kw_only=True)
class EndOutside:
    """Commit this plan without a claim. `suspension` is the attempt's own runner, if it had one."""

    plan: CommitPlan
    suspension: DetachedSuspension | None


@attrs.frozen(kw_only=True)
class Skip:
    """Leave it: nothing here can be settled. It is logged and counted."""

    why: Why


@attrs.frozen(kw_only=True)
class Recovered:
    """This hand ended the run."""

    status: RunStatus


@attrs.frozen(kw_only=True)
class TerminalizedByAnother:
    """The run had ended already, by another hand; its terminal is as durable."""

    status: RunStatus


@attrs.frozen(kw_only=True)
class Conflict:
    """The fence is lost and the run is open: another hand holds it, and will end it."""

    status: RunStatus | None


@attrs.frozen(kw_only=True)
class Unexpected:
    """The store says committed but names no end that a result can have: an error."""

    message: str


@attrs.frozen(kw_only=True)
class Counts:
    """What a pass came to: ends of its own, and candidates that it could not end."""

    recovered: int = 0
    skipped: int = 0

    @property
    def settled(self) -> int:
        """How many candidates are dealt with."""
        return self.recovered + self.skipped

    def __add__(self, other: "Counts") -> "Counts":
        """Both together."""
        return Counts(
            recovered=self.recovered + other.recovered, skipped=self.skipped + other.skipped
        )


NOTHING = Counts()
RECOVERED = Counts(recovered=1)
SKIPPED = Counts(skipped=1)

TerminalDecision: TypeAlias = EndOutside | Skip
AfterCommit: TypeAlias = Recovered | TerminalizedByAnother | Conflict | Unexpected


def own_suspension(attempt: int, suspension: Suspension | None) -> DetachedSuspension | None:
    """The detached runner of exactly this attempt; what a newer one waits for is not ours (C35.2).

    Only the own one may name the sandbox of a crash diagnostic or of a canary report (I49).
    """
    if isinstance(suspension, DetachedSuspension) and suspension.runner_attempt == attempt:
        return suspension
    return None


def settle_terminal(attempt: Attempt | None, *, launch_found: bool) -> TerminalDecision:
    """Decide about one attempt that was listed with a runner terminal, as just read."""
    if attempt is None:
        return Skip(why=Why("recovery.attempt_missing"))
    if attempt.status not in LIVE:
        return Skip(why=Why("recovery.attempt_over", {"status": attempt.status.value}))
    if attempt.runner_terminal is None:
        return Skip(why=Why("recovery.no_terminal"))
    if not launch_found:
        return Skip(why=Why("recovery.launch_missing"))
    evidence = outcome_evidence(attempt.runner_terminal)
    return end_with(attempt, attempt.runner_terminal, Why("recovery.runner_terminal", evidence))


def end_with(attempt: Attempt, result: RunnerTerminal, why: Why) -> EndOutside:
    """End the attempt with a result; one that is stored on it still wins in the commit (I03)."""
    own = own_suspension(attempt.ref.attempt, attempt.suspension)
    return EndOutside(plan=terminal_commit.after_settlement(result, why, own), suspension=own)


def after_commit(key: AttemptKey, status: RunStatus | None, *, committed: bool) -> AfterCommit:
    """What the store's answer means; `status` is the run's now, `None` when it is gone."""
    if not committed:
        if status is not None and status.is_terminal:
            return TerminalizedByAnother(status=status)
        return Conflict(status=status)
    if status is not RunStatus.COMPLETED and status is not RunStatus.FAILED:
        shown = "none" if status is None else status.value
        return Unexpected(
            message=f"attempt {key.attempt} of run {key.run_id} was settled as {shown}"
        )
    return Recovered(status=status)


def counted(outcome: AfterCommit) -> Counts:
    """How an outcome counts: only an end of ours is a recovery (C35.8)."""
    return RECOVERED if isinstance(outcome, Recovered) else SKIPPED
