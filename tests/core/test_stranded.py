"""What becomes of a run that the engine lost (L01, L08, C15.R5, A30)."""

from datetime import datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.model.attempt import Attempt, AttemptStatus
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.result import Failed, Suspended
from deepline.core.model.suspension import EventSuspension, SleepSuspension
from deepline.core.stranded import (
    STRANDED,
    CancelUnstarted,
    EndStranded,
    LeaveAlone,
    SpawnAgain,
    StrandedDecision,
    StrandedFacts,
    settle_stranded,
)
from tests.core.parked import DONE, LIMITS, START, at, parked, suspension

SLEEP = SleepSuspension(boundary_id="b-1", runner_attempt=2, wake_at=at(50))
EVENT = EventSuspension(boundary_id="b-1", runner_attempt=2, event_key="approved")
UNBOUND = attrs.evolve(parked(None), status=AttemptStatus.RUNNING, suspension_malformed=False)
RETIRED = attrs.evolve(UNBOUND, status=AttemptStatus.RETIRED)
RESUMED = Checkpoint(state={"resumed": {"b-0": {"kind": "sleep"}}})
LATER = START + LIMITS.detached_ceiling


def decide(
    attempt: Attempt | None,
    task_state: str | None = "failed",
    *,
    now: datetime = START,
    launch_found: bool = True,
) -> StrandedDecision:
    """Ask the rule."""
    return settle_stranded(
        StrandedFacts(
            now=now,
            task_state=task_state,
            attempt=attempt,
            launch_found=launch_found,
            limits=LIMITS,
        )
    )


@pytest.mark.parametrize(
    ("attempt", "task_state", "kind", "rule"),
    [
        pytest.param(
            parked(suspension(), terminal=DONE),
            "failed",
            EndStranded,
            "arbitration.pushed_terminal",
            id="own-terminal",
        ),
        pytest.param(
            parked(suspension()),
            "failed",
            LeaveAlone,
            "stranded.runner_may_live",
            id="runner-may-live",
        ),
        pytest.param(
            attrs.evolve(parked(suspension()), status=AttemptStatus.RUNNING),
            None,
            LeaveAlone,
            "stranded.runner_may_live",
            id="runner-may-live-though-never-parked",
        ),
        pytest.param(
            parked(None), "failed", LeaveAlone, "stranded.runner_may_live", id="unreadable"
        ),
        pytest.param(
            attrs.evolve(parked(suspension()), pending=Suspended(suspension=SLEEP)),
            None,
            EndStranded,
            "stranded.play_started",
            id="suspension-handed-in",
        ),
        pytest.param(parked(SLEEP), None, EndStranded, "stranded.play_started", id="asleep"),
        pytest.param(parked(EVENT), "failed", EndStranded, "stranded.play_started", id="waiting"),
        pytest.param(
            attrs.evolve(RETIRED, checkpoint=RESUMED),
            None,
            EndStranded,
            "stranded.play_started",
            id="resumed-and-given-up",
        ),
        pytest.param(
            attrs.evolve(UNBOUND, checkpoint=RESUMED),
            None,
            EndStranded,
            "stranded.play_started",
            id="resumed-again",
        ),
        pytest.param(None, None, SpawnAgain, "stranded.spawned_again", id="no-attempt-no-task"),
        pytest.param(
            UNBOUND, None, SpawnAgain, "stranded.spawned_again", id="unbound-attempt-no-task"
        ),
        pytest.param(
            RETIRED, None, SpawnAgain, "stranded.spawned_again", id="retired-attempt-no-task"
        ),
        pytest.param(
            attrs.evolve(RETIRED, engine_attempt=LIMITS.max_engine_attempts),
            None,
            EndStranded,
            "stranded.unstarted",
            id="no-attempts-left",
        ),
        pytest.param(
            RETIRED, "failed", EndStranded, "stranded.unstarted", id="retired-attempt-task-over"
        ),
        pytest.param(
            None, "completed", CancelUnstarted, "stranded.unstarted", id="no-attempt-task-over"
        ),
    ],
)
def test_a_stranded_run(
    attempt: Attempt | None, task_state: str | None, kind: type, rule: str
) -> None:
    """Each situation of a stranded run has one way out, and says which."""
    found = decide(attempt, task_state)

    assert isinstance(found, kind)
    why = found.end.plan.why if isinstance(found, EndStranded) else found.why
    assert why.rule == rule


@pytest.mark.parametrize(
    ("task_state", "words"),
    [
        pytest.param(None, "is missing", id="missing"),
        pytest.param("failed", "was failed", id="failed"),
        pytest.param("cancelled", "was cancelled", id="cancelled"),
    ],
)
def test_the_failure_says_what_happened(task_state: str | None, words: str) -> None:
    """The error has its code, what became of the task, and that nothing was started again."""
    found = decide(parked(SLEEP), task_state)

    assert isinstance(found, EndStranded)
    result = found.end.plan.result
    assert isinstance(result, Failed)
    assert result.error.startswith(STRANDED)
    assert words in result.error
    assert "not started again" in result.error
    assert result.cause is not None
    assert result.cause["taskState"] == task_state


def test_a_cancel_names_the_preparation() -> None:
    """A run that never had an attempt is cancelled as one whose preparation failed (C15.R5)."""
    found = decide(None, "failed")

    assert isinstance(found, CancelUnstarted)
    assert found.reason == ("SCHEDULER_ATTEMPT_PREPARATION_FAILED: the engine's task was failed")


def test_without_a_launch_nothing_is_spawned() -> None:
    """Nobody could execute a run whose launch is missing."""
    assert isinstance(decide(None, None, launch_found=False), CancelUnstarted)


@pytest.mark.parametrize(
    ("now", "kind"),
    [
        pytest.param(LATER - timedelta(microseconds=1), LeaveAlone, id="before-the-ceiling"),
        pytest.param(LATER, EndStranded, id="at-the-ceiling"),
    ],
)
def test_unreadable_ends_at_the_default_ceiling(now: datetime, kind: type) -> None:
    """A suspension that cannot be read leaves room for a runner until the default limit."""
    found = decide(parked(None), now=now)

    assert isinstance(found, kind)
    if isinstance(found, EndStranded):
        assert found.end.plan.why.rule == "stranded.unreadable_ceiling"


ATTEMPTS = st.one_of(
    st.none(),
    st.builds(
        attrs.evolve,
        st.just(UNBOUND),
        status=st.sampled_from(
            [AttemptStatus.RUNNING, AttemptStatus.WAITING, *[AttemptStatus.RETIRED]]
        ),
        suspension=st.sampled_from([None, SLEEP, EVENT, suspension()]),
        suspension_malformed=st.booleans(),
        pending=st.sampled_from([None, Suspended(suspension=SLEEP)]),
        checkpoint=st.sampled_from([Checkpoint(), RESUMED]),
        engine_attempt=st.integers(1, 8),
    ),
)


@given(ATTEMPTS, st.sampled_from([None, "completed", "failed", "cancelled"]), st.booleans())
def test_play_code_is_never_started_again(
    attempt: Attempt | None, task_state: str | None, launch_found: bool
) -> None:
    """A new task is made only where none is and no code can have run (I11)."""
    found = decide(attempt, task_state, launch_found=launch_found)

    if isinstance(found, SpawnAgain):
        assert task_state is None
        assert launch_found
        assert attempt is None or (
            attempt.suspension is None
            and attempt.pending is None
            and attempt.checkpoint == Checkpoint()
            and attempt.engine_attempt < LIMITS.max_engine_attempts
        )
    if attempt is None:
        assert isinstance(found, SpawnAgain | CancelUnstarted)
