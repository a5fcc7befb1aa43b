"""Settling recorded terminals one at a time, and what follows each (C42, A22, A34).

A launch can be large, so one settlement runs in the process at a time, in whichever pass it began
(I32): a store that stalls holds one settlement, not one a pass. None begins after its pass (I33).
"""

from collections.abc import Sequence
from typing import TypeAlias, assert_never

import attrs

from deepline.core.model.identity import AttemptKey, AttemptRef
from deepline.core.model.launch import Launch
from deepline.core.model.log_event import Level, LogEvent
from deepline.core.model.result import RunnerTerminal
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.sweep import SweepPass, SweepState, is_active
from deepline.core.sweep_outcome import CHANNEL, Counter, Told


@attrs.frozen(kw_only=True)
class SettledTerminal:
    """A terminal that is durable now, whoever committed it.

    `suspension` is the attempt's own detached runner, `None` when it had none.
    """

    ref: AttemptRef
    launch: Launch
    result: RunnerTerminal
    status: RunStatus
    suspension: DetachedSuspension | None
    by_another: bool


@attrs.frozen
class Run:
    """It is this settlement's turn."""


@attrs.frozen
class Deferred:
    """The terminal stays recorded for the next pass, or for the parked attempt itself."""

    reason: str
    told: Told


Turn: TypeAlias = Run | Deferred


@attrs.frozen
class Settlement:
    """A settlement that ended, with what is durable because of it; nothing when it was skipped."""

    entries: Sequence[SettledTerminal]


@attrs.frozen
class SettlementFailed:
    """A settlement that raised; the terminal stays recorded."""

    error: str


SettlementEnd: TypeAlias = Settlement | SettlementFailed


@attrs.frozen(kw_only=True)
class AfterTerminal:
    """What is done for a durable terminal, each step safe to repeat.

    A worker may die between its commit and its cleanup, so this is owed to another's too.
    """

    reports_canary: bool
    releases_attempt: bool


@attrs.frozen
class Project:
    """Ask for the delivery of the run's facts, until the pass's deadline."""


@attrs.frozen
class LeaveProjection:
    """The durable projector delivers."""

    told: Told


ProjectionTurn: TypeAlias = Project | LeaveProjection


def turn(state: SweepState, sweep_pass: SweepPass, key: AttemptKey, now_s: float) -> Turn:
    """Decide when a settlement's turn comes. Being too late says nothing: the next pass has it."""
    if not is_active(state, sweep_pass, now_s):
        return Deferred("pass_ended", Told())
    if state.settling:
        return Deferred("store_busy", Told(events=(_warning("settlement_deferred", key),)))
    return Run()


def settling(state: SweepState, *, on: bool) -> SweepState:
    """Mark that a settlement runs, or that it ended, however it did."""
    assert state.settling is not on
    return attrs.evolve(state, settling=on)


def after_settlement(key: AttemptKey, end: SettlementEnd) -> Told:
    """A settlement that ended within its pass: an end of ours counts, another's was faster."""
    match end:
        case Settlement(entries):
            counts = [Counter.FENCED if one.by_another else Counter.SETTLED for one in entries]
            return Told(counts=tuple(counts))
        case SettlementFailed(error):
            return Told(
                counts=(Counter.SETTLEMENT_FAILED,),
                events=(_failure(key, error, after_pass=False),),
            )
        case _:
            assert_never(end)


def overran(key: AttemptKey) -> LogEvent:
    """The warning that a settlement goes on without its pass, and still holds the turn."""
    return _warning("settlement_overran", key)


def after_late_settlement(key: AttemptKey, end: SettlementEnd) -> tuple[LogEvent, ...]:
    """A settlement that ended after its pass: a failure is said; nothing is counted."""
    match end:
        case Settlement():
            return ()
        case SettlementFailed(error):
            return (_failure(key, error, after_pass=True),)
        case _:
            assert_never(end)


def after_terminal(entry: SettledTerminal) -> AfterTerminal:
    """What a durable terminal is owed."""
    return AfterTerminal(
        reports_canary=entry.suspension is not None,
        releases_attempt=entry.status is RunStatus.FAILED,
    )


def canary_failed(key: AttemptKey, error: str) -> LogEvent:
    """The warning of a canary report that could not be made."""
    return LogEvent(
        level=Level.WARN,
        channel=CHANNEL,
        name="detached_runner_liveness_canary_failed",
        fields={"runId": key.run_id, "error": error},
    )


def projection_turn(state: SweepState, key: AttemptKey, *, can_project: bool) -> ProjectionTurn:
    """One projection at a time, in whichever pass it began (I32)."""
    if not can_project:
        return LeaveProjection(Told())
    if state.projecting:
        return LeaveProjection(Told(events=(_warning("projection_skipped", key),)))
    return Project()


def projecting(state: SweepState, *, on: bool) -> SweepState:
    """Mark that a projection runs, or that it ended."""
    assert state.projecting is not on
    return attrs.evolve(state, projecting=on)


def _warning(name: str, key: AttemptKey) -> LogEvent:
    return LogEvent(
        level=Level.WARN,
        channel=CHANNEL,
        name=f"detached_runner_liveness_{name}",
        fields={"runId": key.run_id, "attempt": key.attempt},
    )


def _failure(key: AttemptKey, error: str, *, after_pass: bool) -> LogEvent:
    return LogEvent(
        level=Level.ERROR,
        channel=CHANNEL,
        name="detached_runner_liveness_settlement_failed",
        fields={
            "runId": key.run_id,
            "attempt": key.attempt,
            "afterPass": after_pass,
            "error": error,
        },
    )
