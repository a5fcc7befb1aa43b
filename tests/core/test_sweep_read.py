"""One read of a silent runner: rows, slots and what it proves (C40, A14, A20, I34)."""

from datetime import UTC, datetime

import pytest

from deepline.core.inspection import (
    Inspected,
    InspectionEmpty,
    InspectionEvidence,
    InspectionFailed,
    NoInspector,
)
from deepline.core.model.log_event import Level
from deepline.core.model.result import Suspended
from deepline.core.model.sandbox import PROVES_GONE, UNANSWERED, Inspection, Stage
from deepline.core.model.suspension import SleepSuspension
from deepline.core.sweep import ReadCounts, SweepMode, SweepState
from deepline.core.sweep_outcome import CHANNEL, Counter
from deepline.core.sweep_read import (
    LeaveAlone,
    Read,
    ReadPhase,
    SkipAbandoned,
    SkipUnreadable,
    WriteVerdict,
    abandon_read,
    after_read,
    before_read,
    end_read,
    read_failed,
    take_slot,
)
from tests.core.sweeping import SETTINGS, runner

HOLDS, ABANDONED, ENDED = ReadPhase.HOLDS_SLOT, ReadPhase.ABANDONED, ReadPhase.ENDED


def reading(in_flight: int, abandoned: int) -> SweepState:
    """A state in which so many reads of the provider are under way."""
    counts = ReadCounts(in_flight=in_flight, abandoned=abandoned)
    return SweepState(reads={"daytona": counts})


def test_row_1_an_unreadable_suspension_is_skipped() -> None:
    """Nobody knows what to read: it is counted and said, also at a provider that hangs (C40.1)."""
    decision = before_read(reading(0, 6), runner(readable=False), SETTINGS)

    assert isinstance(decision, SkipUnreadable)
    assert decision.told.counts == (Counter.INVALID_SUSPENSIONS,)
    (event,) = decision.told.events
    assert (event.level, event.channel) == (Level.WARN, CHANNEL)
    assert event.name == "detached_runner_liveness_invalid_suspension"
    assert event.fields == {"runId": "run-1", "attempt": 2}


def test_row_2_too_many_abandoned_reads_stop_the_reading() -> None:
    """From six on a provider is not read; it counts as unreadable, not as inspected (C40.2)."""
    decision = before_read(reading(0, 6), runner(), SETTINGS)

    assert isinstance(decision, SkipAbandoned)
    assert decision.told.counts == (Counter.UNREADABLE,)
    assert decision.told.events == ()


@pytest.mark.parametrize("provider", ["daytona", "modal"])
def test_row_3_otherwise_the_sandbox_is_read(provider: str) -> None:
    """Five abandoned reads still leave room, and another provider's do not matter (C40.3)."""
    abandoned = 5 if provider == "daytona" else 6
    one = runner(provider=provider)

    decision = before_read(reading(0, abandoned), one, SETTINGS)

    assert isinstance(decision, Read)
    assert decision.suspension == one.suspension
    assert decision.told.counts == (Counter.INSPECTED,)


def test_a_slot_is_taken_at_one_provider() -> None:
    """Slots are counted apart."""
    state = take_slot(take_slot(SweepState(), "daytona"), "modal")

    assert state.reads_of("daytona") == ReadCounts(in_flight=1)
    assert state.reads_of("modal") == ReadCounts(in_flight=1)


@pytest.mark.parametrize(
    ("phase", "left"),
    [
        pytest.param(HOLDS, ReadCounts(in_flight=1, abandoned=1), id="holding-gives-its-slot-back"),
        pytest.param(ABANDONED, ReadCounts(in_flight=2), id="abandoned-is-forgotten"),
        pytest.param(ENDED, ReadCounts(in_flight=2, abandoned=1), id="ended-gives-nothing"),
    ],
)
def test_a_read_that_ends_gives_back_what_it_holds(phase: ReadPhase, left: ReadCounts) -> None:
    """Once: the slot, or its place among the abandoned (I34)."""
    state, after = end_read(reading(2, 1), "daytona", phase)

    assert (state.reads_of("daytona"), after) == (left, ENDED)


def test_a_read_past_its_deadline_is_abandoned() -> None:
    """Its slot is free again, it is counted as abandoned, and that is said (C40)."""
    state, phase, told = abandon_read(reading(2, 1), runner(), "sb-1", HOLDS)

    assert state.reads_of("daytona") == ReadCounts(in_flight=1, abandoned=2)
    assert phase is ABANDONED
    (event,) = told.events
    assert (event.level, event.name) == (Level.WARN, "detached_runner_liveness_read_abandoned")
    assert event.fields == {
        "runId": "run-1",
        "sandboxId": "sb-1",
        "provider": "daytona",
        "abandonedReads": 2,
    }


@pytest.mark.parametrize("phase", [ABANDONED, ENDED])
def test_a_read_is_abandoned_once(phase: ReadPhase) -> None:
    """A deadline that comes too late, or again, changes nothing."""
    state, after, told = abandon_read(reading(2, 1), runner(), "sb-1", phase)

    assert (state, after) == (reading(2, 1), phase)
    assert told.events == ()


def test_a_failed_read_is_said() -> None:
    """The error is in the log, and proves nothing."""
    event = read_failed(runner(), "sb-1", "502 Bad Gateway")

    assert (event.level, event.name) == (Level.WARN, "detached_runner_liveness_evidence_failed")
    assert event.fields == {"runId": "run-1", "sandboxId": "sb-1", "error": "502 Bad Gateway"}


EVIDENCE: dict[str, InspectionEvidence] = {
    **{stage.value: Inspected(Inspection(stage=stage)) for stage in Stage},
    "failed": InspectionFailed(),
    "certain-failure": InspectionFailed(sandbox_missing=True),
    "empty": InspectionEmpty(),
    "no-inspector": NoInspector(),
}


@pytest.mark.parametrize("mode", [SweepMode.OBSERVE, SweepMode.ENFORCE])
@pytest.mark.parametrize("evidence", EVIDENCE.values(), ids=EVIDENCE)
def test_what_a_read_shows(evidence: InspectionEvidence, mode: SweepMode) -> None:
    """Answered by any stage but three; proven gone by six of them; unreadable is no proof (I07)."""
    stage = evidence.inspection.stage if isinstance(evidence, Inspected) else None
    answered = stage is not None and stage not in UNANSWERED
    gone = stage in PROVES_GONE

    judged = after_read(runner(), "sb-1", evidence, mode)

    assert judged.answered is answered
    counts = set(judged.told.counts)
    assert (Counter.UNREADABLE in counts) is not answered
    assert (Counter.UNPROVEN in counts) is not gone
    assert (Counter.PROVEN in counts) is gone
    assert (Counter.WOULD_SETTLE in counts) is (gone and mode is SweepMode.OBSERVE)
    writes = isinstance(judged.then, WriteVerdict)
    assert writes is (gone and mode is SweepMode.ENFORCE)
    if isinstance(judged.then, WriteVerdict):
        assert isinstance(evidence, Inspected)
        assert judged.then.inspection == evidence.inspection


def test_a_play_that_paused_is_left_to_its_own_wake() -> None:
    """A sandbox that is gone but left a suspension behind is no lost runner (C29)."""
    nap = SleepSuspension(
        boundary_id="nap", runner_attempt=runner().ref.attempt, wake_at=datetime.now(UTC)
    )
    seen = Inspection(stage=Stage.COMMAND_EXITED, exit_code=75, result=Suspended(suspension=nap))

    judged = after_read(runner(), "sb-1", Inspected(seen), SweepMode.ENFORCE)

    assert isinstance(judged.then, LeaveAlone)
    assert judged.answered
    assert judged.told.counts == (Counter.PROVEN,)


@pytest.mark.parametrize(
    ("evidence", "diagnosis"),
    [
        pytest.param(InspectionFailed(), "unavailable", id="nothing-came"),
        pytest.param(Inspected(Inspection(stage=Stage.COMMAND_RUNNING)), "command_running", id="x"),
    ],
)
def test_an_unproven_runner_is_said(evidence: InspectionEvidence, diagnosis: str) -> None:
    """Whoever watches sees that it is silent and not proven gone, and why."""
    judged = after_read(runner(), "sb-1", evidence, SweepMode.ENFORCE)

    (event,) = judged.told.events
    assert (event.level, event.name) == (Level.WARN, "detached_runner_liveness_unproven")
    assert event.fields == {
        "runId": "run-1",
        "runnerAttempt": 2,
        "sandboxId": "sb-1",
        "diagnosis": diagnosis,
    }


def test_observing_says_what_enforcing_would_do() -> None:
    """The evidence for turning enforcement on: what would be settled, and on which ground."""
    gone = Inspected(Inspection(stage=Stage.SANDBOX_NOT_FOUND))

    judged = after_read(runner(), "sb-1", gone, SweepMode.OBSERVE)

    assert isinstance(judged.then, LeaveAlone)
    (event,) = judged.told.events
    assert (event.level, event.name) == (Level.INFO, "detached_runner_liveness_would_settle")
    assert event.fields == {
        "runId": "run-1",
        "runnerAttempt": 2,
        "sandboxId": "sb-1",
        "diagnosis": "sandbox_not_found",
    }
