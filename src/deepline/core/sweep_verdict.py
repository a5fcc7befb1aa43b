"""The verdict on a runner whose sandbox is proven gone, and what its write came to (C41).

It is the terminal that the parked attempt would record at its own next wake, written under the
whole fence of what was found; so a wake that races it commits the same.
"""

from datetime import datetime
from typing import TypeAlias, assert_never

import attrs

from deepline.core.inspection import Inspected, inspected_result
from deepline.core.instants import length_ms
from deepline.core.limits import Limits
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.log_event import Level, LogEvent
from deepline.core.model.result import Report, RunnerTerminal
from deepline.core.model.sandbox import Inspection
from deepline.core.model.stale_runner import StaleRunner
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.model.why import Why
from deepline.core.outcome import outcome_evidence
from deepline.core.silence import heartbeat_timeout
from deepline.core.sweep_outcome import CHANNEL, Counter, Told
from deepline.core.verdicts import (
    EXPIRED_EVENT,
    Observation,
    expiry_report,
    lost_verdict,
    safe_label,
)


@attrs.frozen(kw_only=True)
class Verdict:
    """A terminal to record. `report` is said once it is stored, and only of a synthetic one."""

    terminal: RunnerTerminal
    why: Why
    report: JsonObject | None


@attrs.frozen
class Stored:
    """The verdict is the attempt's terminal."""


@attrs.frozen
class Refused:
    """The attempt was no longer as it was found; nothing was written."""


@attrs.frozen
class WriteFailed:
    """The store did not answer; whether it wrote is unknown."""

    error: str


WriteEnd: TypeAlias = Stored | Refused | WriteFailed


@attrs.frozen(kw_only=True)
class AfterVerdict:
    """What follows a write. `settles` is true when this pass goes on to settle it (C42)."""

    settles: bool
    told: Told


def choose_verdict(
    runner: StaleRunner,
    suspension: DetachedSuspension,
    inspection: Inspection,
    observed_at: datetime,
    limits: Limits,
) -> Verdict:
    """The runner's own result if it left one behind, else that it is lost.

    Either is stamped with the provider that really ran it (A20, I53).
    """
    observation = Observation(
        key=runner.key,
        suspension=suspension,
        liveness=runner.liveness,
        observed_at=observed_at,
        heartbeat_timeout=heartbeat_timeout(suspension, limits),
    )
    evidence: dict[str, Json] = {
        "provider": runner.provider,
        "sandbox_id": suspension.sandbox_id,
        "stage": safe_label(inspection.stage),
        "exit_code": inspection.exit_code,
    }
    found = inspected_result(Inspected(inspection))
    if found is not None:
        evidence |= outcome_evidence(found)
        return Verdict(
            terminal=_stamped(found, runner.provider),
            why=Why("sweep.inspected_result", evidence),
            report=None,
        )
    age = observation.heartbeat_age
    evidence["heartbeat_age_ms"] = None if age is None else length_ms(age)
    lost = lost_verdict(observation, Inspected(inspection))
    return Verdict(
        terminal=_stamped(lost, runner.provider),
        why=Why("sweep.lost", evidence),
        report=expiry_report(observation),
    )


def after_write(runner: StaleRunner, verdict: Verdict, end: WriteEnd) -> AfterVerdict:
    """A write that ended within its pass."""
    match end:
        case Stored():
            return AfterVerdict(settles=True, told=Told(events=_reported(verdict)))
        case Refused():
            return AfterVerdict(settles=False, told=Told(counts=(Counter.FENCED,)))
        case WriteFailed(error):
            event = _failed(runner, error, after_pass=False)
            told = Told(counts=(Counter.SETTLEMENT_FAILED,), events=(event,))
            return AfterVerdict(settles=False, told=told)
        case _:
            assert_never(end)


def overran(runner: StaleRunner) -> LogEvent:
    """The warning that a write goes on without its pass."""
    return LogEvent(
        level=Level.WARN,
        channel=CHANNEL,
        name="detached_runner_liveness_verdict_overran",
        fields={"runId": runner.ref.run_id, "attempt": runner.ref.attempt},
    )


def after_late_write(runner: StaleRunner, verdict: Verdict, end: WriteEnd) -> tuple[LogEvent, ...]:
    """A write that ended after its pass: said, never counted; the next pass settles it."""
    match end:
        case Stored():
            return _reported(verdict)
        case Refused():
            return ()
        case WriteFailed(error):
            return (_failed(runner, error, after_pass=True),)
        case _:
            assert_never(end)


def _stamped(terminal: RunnerTerminal, provider: str) -> RunnerTerminal:
    report: Report = terminal.report
    stats = {**report.stats, "sandboxProvider": provider}
    return attrs.evolve(terminal, report=attrs.evolve(report, stats=stats))


def _reported(verdict: Verdict) -> tuple[LogEvent, ...]:
    if verdict.report is None:
        return ()
    event = LogEvent(level=Level.ERROR, channel=CHANNEL, name=EXPIRED_EVENT, fields=verdict.report)
    return (event,)


def _failed(runner: StaleRunner, error: str, *, after_pass: bool) -> LogEvent:
    return LogEvent(
        level=Level.ERROR,
        channel=CHANNEL,
        name="detached_runner_liveness_verdict_failed",
        fields={
            "runId": runner.ref.run_id,
            "attempt": runner.ref.attempt,
            "afterPass": after_pass,
            "error": error,
        },
    )
