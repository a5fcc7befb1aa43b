"""From a result to the commit of a terminal: before it, in it and after it (C21).

The plan is data: the runtime carries `before` out from left to right, builds one commit with the
options, and asks `after_commit` what the answer means.
"""

import enum
from datetime import datetime
from typing import TypeAlias

import attrs

from deepline.core.crash_diagnostics import should_capture
from deepline.core.instants import to_ms
from deepline.core.model.identity import AttemptKey
from deepline.core.model.json_value import Json
from deepline.core.model.log_event import Level, LogEvent
from deepline.core.model.result import Failed, RunnerResult, RunnerTerminal, Suspended
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import DetachedSuspension, Suspension
from deepline.core.model.why import Why
from deepline.core.observed_terminal import ObservedTerminalSource
from deepline.core.outcome import is_crash_contained, outcome_evidence
from deepline.core.settled_counts import reads_settled_counts


class BeforeCommit(enum.StrEnum):
    """What happens before the commit; each is best effort and bounded."""

    REPORT_CANARY = "report_canary"
    READ_SETTLED_COUNTS = "read_settled_counts"


@attrs.frozen(kw_only=True)
class CommitPlan:
    """The order before the commit and the options of the commit itself.

    `from_waiting` takes a waiting attempt to running under its own fence as part of the commit.
    `preserve_runner_terminal` lets a terminal stored on the attempt win over the result.
    """

    before: tuple[BeforeCommit, ...]
    result: RunnerTerminal
    from_waiting: bool
    preserve_runner_terminal: bool
    keep_log_tail: bool
    request_crash_diagnostic: bool
    why: Why


@attrs.frozen(kw_only=True)
class ParkSuspended:
    """The result is no end: park (C29)."""

    suspension: Suspension


@attrs.frozen(kw_only=True)
class Project:
    """The terminal is committed: log it and project it (C24)."""

    status: RunStatus
    event: LogEvent


@attrs.frozen(kw_only=True)
class SettleObserved:
    """The fence is lost: release what the attempt held, then settle what others wrote (C27)."""

    source: ObservedTerminalSource
    status: RunStatus | None


@attrs.frozen(kw_only=True)
class UnexpectedStatus:
    """The store says committed but names no terminal a result can have: an error of ours."""

    message: str


AfterResult: TypeAlias = ParkSuspended | CommitPlan
AfterCommit: TypeAlias = Project | SettleObserved | UnexpectedStatus


def after_result(result: RunnerResult) -> AfterResult:
    """What the result of an execution in this process leads to: park it, or commit it."""
    if isinstance(result, Suspended):
        return ParkSuspended(suspension=result.suspension)
    return _plan(result, None, from_waiting=False, why=_own_why(result))


def after_settlement(
    result: RunnerTerminal, why: Why, suspension: DetachedSuspension | None
) -> CommitPlan:
    """The commit of a detached runner's end, decided by parking or arbitration.

    The attempt is still waiting, and what is stored on it wins over what is in hand (I03).
    `suspension` must be the attempt's own (C35.2); `None` when there is none that can be read.
    """
    return _plan(result, suspension, from_waiting=True, why=why)


def after_commit(
    key: AttemptKey, status: RunStatus | None, committed_at: datetime | None, *, detached: bool
) -> AfterCommit:
    """What the store's answer means; `committed_at` is `None` when the fence was lost."""
    if committed_at is None:
        return SettleObserved(source=ObservedTerminalSource.FENCE_LOST, status=status)
    if status is not RunStatus.COMPLETED and status is not RunStatus.FAILED:
        shown = "none" if status is None else status.value
        return UnexpectedStatus(message=f"unexpected non-terminal claim status: {shown}")
    fields: dict[str, Json] = {
        "runId": key.run_id,
        "generation": key.attempt,
        "status": status.value,
        "fromDetachedRunner": detached,
        "committedAtMs": to_ms(committed_at),
    }
    event = LogEvent(
        level=Level.INFO,
        channel="absurd-runtime.worker",
        name="terminal_committed",
        fields=fields,
    )
    return Project(status=status, event=event)


def _plan(
    result: RunnerTerminal, suspension: DetachedSuspension | None, *, from_waiting: bool, why: Why
) -> CommitPlan:
    before: list[BeforeCommit] = []
    if suspension is not None:
        before.append(BeforeCommit.REPORT_CANARY)
    if reads_settled_counts(result):
        before.append(BeforeCommit.READ_SETTLED_COUNTS)
    return CommitPlan(
        before=tuple(before),
        result=result,
        from_waiting=from_waiting,
        preserve_runner_terminal=from_waiting,
        keep_log_tail=from_waiting,
        request_crash_diagnostic=should_capture(result, suspension),
        why=why,
    )


def _own_why(result: RunnerTerminal) -> Why:
    evidence = outcome_evidence(result)
    if not isinstance(result, Failed):
        return Why("terminal.completed", evidence)
    rule = "terminal.crash_contained" if is_crash_contained(result.error) else "terminal.failed"
    return Why(rule, evidence)
