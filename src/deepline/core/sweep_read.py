"""One read of a silent runner's sandbox: whether it is made, its slot, and what it shows (C40).

Unreadable is never proof. A read that ran past its deadline gives its slot back and is counted as
abandoned until it ends, so that a provider which hangs can blind the sweep for a while, and never
for good.
"""

import enum
from typing import TypeAlias, assert_never

import attrs

from deepline.core.inspection import Inspected, InspectionEvidence, inspected_suspension
from deepline.core.model.json_value import Json
from deepline.core.model.log_event import Level, LogEvent
from deepline.core.model.sandbox import Inspection
from deepline.core.model.stale_runner import StaleRunner
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.sweep import ReadCounts, SweepMode, SweepSettings, SweepState
from deepline.core.sweep_outcome import CHANNEL, Counter, Told
from deepline.core.verdicts import safe_label


@attrs.frozen
class SkipUnreadable:
    """Nobody can say which sandbox to read; look again later."""

    told: Told


@attrs.frozen
class SkipAbandoned:
    """Too many reads of this provider never ended; not marked as read, since it was not."""

    told: Told


@attrs.frozen
class Read:
    """Take a slot and read this runner's sandbox."""

    suspension: DetachedSuspension
    told: Told


BeforeRead: TypeAlias = SkipUnreadable | SkipAbandoned | Read


class ReadPhase(enum.StrEnum):
    """Where one read stands with its slot."""

    HOLDS_SLOT = "holds_slot"
    ABANDONED = "abandoned"
    ENDED = "ended"


@attrs.frozen
class LeaveAlone:
    """Nothing is proven, or nothing may be written: the runner stays parked."""


@attrs.frozen
class WriteVerdict:
    """The sandbox is proven gone: record the verdict that this inspection supports (C41)."""

    inspection: Inspection


@attrs.frozen(kw_only=True)
class AfterRead:
    """What a read showed. `answered` says whether the provider spoke at all."""

    answered: bool
    then: LeaveAlone | WriteVerdict
    told: Told


def before_read(state: SweepState, runner: StaleRunner, settings: SweepSettings) -> BeforeRead:
    """Decide whether a runner is read; the first row that holds."""
    if runner.suspension is None:
        event = _event(
            Level.WARN,
            "invalid_suspension",
            {"runId": runner.ref.run_id, "attempt": runner.ref.attempt},
        )
        return SkipUnreadable(Told(counts=(Counter.INVALID_SUSPENSIONS,), events=(event,)))
    if state.reads_of(runner.provider).abandoned >= settings.abandoned_max:
        return SkipAbandoned(Told(counts=(Counter.UNREADABLE,)))
    return Read(runner.suspension, Told(counts=(Counter.INSPECTED,)))


def take_slot(state: SweepState, provider: str) -> SweepState:
    """A read of this provider begins."""
    return _with_reads(state, provider, in_flight=1)


def end_read(state: SweepState, provider: str, phase: ReadPhase) -> tuple[SweepState, ReadPhase]:
    """A read ended by itself; whatever it still holds is given back, once."""
    match phase:
        case ReadPhase.HOLDS_SLOT:
            return _with_reads(state, provider, in_flight=-1), ReadPhase.ENDED
        case ReadPhase.ABANDONED:
            return _with_reads(state, provider, abandoned=-1), ReadPhase.ENDED
        case ReadPhase.ENDED:
            return state, phase
        case _:
            assert_never(phase)


def abandon_read(
    state: SweepState, runner: StaleRunner, sandbox_id: str, phase: ReadPhase
) -> tuple[SweepState, ReadPhase, Told]:
    """A read reached its deadline: if it still runs, its slot is given back without it."""
    if phase is not ReadPhase.HOLDS_SLOT:
        return state, phase, Told()
    after = _with_reads(state, runner.provider, in_flight=-1, abandoned=1)
    event = _event(
        Level.WARN,
        "read_abandoned",
        {
            "runId": runner.ref.run_id,
            "sandboxId": sandbox_id,
            "provider": runner.provider,
            "abandonedReads": after.reads_of(runner.provider).abandoned,
        },
    )
    return after, ReadPhase.ABANDONED, Told(events=(event,))


def read_failed(runner: StaleRunner, sandbox_id: str, error: str) -> LogEvent:
    """The warning of a read that raised; it is no evidence."""
    return _event(
        Level.WARN,
        "evidence_failed",
        {"runId": runner.ref.run_id, "sandboxId": sandbox_id, "error": error},
    )


def after_read(
    runner: StaleRunner, sandbox_id: str, evidence: InspectionEvidence, mode: SweepMode
) -> AfterRead:
    """Judge what a read brought, or that it brought nothing within the pass.

    Only an answer of the provider proves anything: an error, however certain, does not.
    """
    inspection = evidence.inspection if isinstance(evidence, Inspected) else None
    answered = inspection is not None and inspection.answered
    unread = () if answered else (Counter.UNREADABLE,)
    if inspection is None or not inspection.proves_gone:
        event = _seen(Level.WARN, "unproven", runner, sandbox_id, inspection)
        told = Told(counts=(*unread, Counter.UNPROVEN), events=(event,))
        return AfterRead(answered=answered, then=LeaveAlone(), told=told)
    if mode is not SweepMode.ENFORCE:
        event = _seen(Level.INFO, "would_settle", runner, sandbox_id, inspection)
        told = Told(counts=(Counter.PROVEN, Counter.WOULD_SETTLE), events=(event,))
        return AfterRead(answered=True, then=LeaveAlone(), told=told)
    told = Told(counts=(Counter.PROVEN,))
    if inspected_suspension(evidence, runner.ref.attempt) is not None:
        # Not lost: the run's own wake hands in what its runner could not.
        return AfterRead(answered=True, then=LeaveAlone(), told=told)
    return AfterRead(answered=True, then=WriteVerdict(inspection), told=told)


def _with_reads(
    state: SweepState, provider: str, *, in_flight: int = 0, abandoned: int = 0
) -> SweepState:
    reads = state.reads_of(provider)
    changed = ReadCounts(
        in_flight=reads.in_flight + in_flight, abandoned=reads.abandoned + abandoned
    )
    assert changed.in_flight >= 0
    assert changed.abandoned >= 0
    return attrs.evolve(state, reads={**state.reads, provider: changed})


def _seen(
    level: Level,
    name: str,
    runner: StaleRunner,
    sandbox_id: str,
    inspection: Inspection | None,
) -> LogEvent:
    fields: dict[str, Json] = {
        "runId": runner.ref.run_id,
        "runnerAttempt": runner.ref.attempt,
        "sandboxId": sandbox_id,
        "diagnosis": "unavailable" if inspection is None else safe_label(inspection.stage),
    }
    return _event(level, name, fields)


def _event(level: Level, name: str, fields: dict[str, Json]) -> LogEvent:
    return LogEvent(
        level=level, channel=CHANNEL, name=f"detached_runner_liveness_{name}", fields=fields
    )
