"""Settling terminals that a dead worker left, and what a commit from outside means (C35, I49)."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.model.attempt import Attempt, AttemptStatus
from deepline.core.model.result import Failed
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import DetachedSuspension, SleepSuspension
from deepline.core.recovery import (
    NOTHING,
    RECOVERED,
    SKIPPED,
    AfterCommit,
    Conflict,
    Counts,
    EndOutside,
    Recovered,
    Skip,
    TerminalizedByAnother,
    Unexpected,
    after_commit,
    counted,
    own_suspension,
    settle_terminal,
)
from tests.core.parked import DONE, KEY, at, parked, suspension

PUSHED = parked(suspension(), terminal=DONE)
LOST = Failed(error="RUNTIME_RUNNER_LOST: silent")
SLEEP = SleepSuspension(boundary_id="b-1", runner_attempt=2, wake_at=at(50))


@pytest.mark.parametrize(
    ("attempt", "launch_found", "rule"),
    [
        pytest.param(None, True, "recovery.attempt_missing", id="C35-1-attempt-missing"),
        pytest.param(
            attrs.evolve(PUSHED, status=AttemptStatus.COMPLETED),
            True,
            "recovery.attempt_over",
            id="C35-1-attempt-over",
        ),
        pytest.param(parked(suspension()), True, "recovery.no_terminal", id="C35-1-no-terminal"),
        pytest.param(PUSHED, False, "recovery.launch_missing", id="C35-1-launch-missing"),
    ],
)
def test_what_cannot_be_settled_is_skipped(
    attempt: Attempt | None, launch_found: bool, rule: str
) -> None:
    """Each reason to leave a listed terminal alone has its own name."""
    found = settle_terminal(attempt, launch_found=launch_found)

    assert isinstance(found, Skip)
    assert found.why.rule == rule


@pytest.mark.parametrize("status", [AttemptStatus.WAITING, AttemptStatus.RUNNING])
def test_a_stored_terminal_is_settled_as_it_is(status: AttemptStatus) -> None:
    """The same commit as a wake's: from waiting, what is stored wins, the log tail kept (C35.4)."""
    found = settle_terminal(attrs.evolve(PUSHED, status=status), launch_found=True)

    assert isinstance(found, EndOutside)
    plan = found.plan
    assert (plan.result, plan.why.rule) == (DONE, "recovery.runner_terminal")
    assert plan.from_waiting
    assert plan.preserve_runner_terminal
    assert plan.keep_log_tail


@pytest.mark.parametrize(
    ("on", "own"),
    [
        pytest.param(suspension(), suspension(), id="C35-2-own"),
        pytest.param(suspension(attempt=3), None, id="C35-2-a-newer-attempts"),
        pytest.param(suspension(attempt=1), None, id="C35-2-an-older-attempts"),
        pytest.param(SLEEP, None, id="C35-2-no-runner"),
        pytest.param(None, None, id="C35-2-none"),
    ],
)
def test_own_suspension(
    on: DetachedSuspension | SleepSuspension | None, own: DetachedSuspension | None
) -> None:
    """Only a runner of exactly this attempt is the attempt's own (A15)."""
    assert own_suspension(KEY.attempt, on) == own


@pytest.mark.parametrize(
    ("on", "captures"),
    [
        pytest.param(suspension(), True, id="C35-3-own"),
        pytest.param(suspension(attempt=3), False, id="C35-3-a-newer-attempts"),
    ],
)
def test_only_the_own_sandbox_is_captured(on: DetachedSuspension, captures: bool) -> None:
    """A crash diagnostic is never taken from another attempt's sandbox (I49)."""
    found = settle_terminal(parked(on, terminal=LOST), launch_found=True)

    assert isinstance(found, EndOutside)
    assert found.plan.request_crash_diagnostic is captures
    assert (found.suspension is not None) is captures


@pytest.mark.parametrize(
    ("status", "committed", "outcome", "counts"),
    [
        pytest.param(
            RunStatus.COMPLETED,
            True,
            Recovered(status=RunStatus.COMPLETED),
            RECOVERED,
            id="C35-4-completed",
        ),
        pytest.param(
            RunStatus.FAILED,
            True,
            Recovered(status=RunStatus.FAILED),
            RECOVERED,
            id="C35-4-failed",
        ),
        pytest.param(
            RunStatus.CANCELLED,
            False,
            TerminalizedByAnother(status=RunStatus.CANCELLED),
            SKIPPED,
            id="C35-6-another-writer",
        ),
        pytest.param(
            RunStatus.RUNNING,
            False,
            Conflict(status=RunStatus.RUNNING),
            SKIPPED,
            id="C35-6-another-holder",
        ),
        pytest.param(None, False, Conflict(status=None), SKIPPED, id="C35-6-run-gone"),
    ],
)
def test_what_the_commit_means(
    status: RunStatus | None, committed: bool, outcome: AfterCommit, counts: Counts
) -> None:
    """Only an end of ours is a recovery; what another wrote is skipped (C35.8)."""
    found = after_commit(KEY, status, committed=committed)

    assert found == outcome
    assert counted(found) == counts


@pytest.mark.parametrize("status", [RunStatus.CANCELLED, RunStatus.WAITING, None])
def test_an_impossible_end_is_an_error(status: RunStatus | None) -> None:
    """A commit that names no end of a result is an error for that terminal (C35.5)."""
    found = after_commit(KEY, status, committed=True)

    assert isinstance(found, Unexpected)
    assert KEY.run_id in found.message


COUNTS = st.builds(Counts, recovered=st.integers(0, 9), skipped=st.integers(0, 9))


@given(COUNTS, COUNTS)
def test_counts_add_up(one: Counts, other: Counts) -> None:
    """Passes are summed in any order, and nothing changes nothing."""
    assert one + other == other + one
    assert one + NOTHING == one
    assert (one + other).settled == one.settled + other.settled
