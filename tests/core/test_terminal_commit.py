"""From a result to the commit of a terminal (C21)."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.model.result import Completed, Failed, RunnerTerminal, Suspended
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.model.why import Why
from deepline.core.observed_terminal import ObservedTerminalSource
from deepline.core.terminal_commit import (
    BeforeCommit,
    CommitPlan,
    ParkSuspended,
    Project,
    SettleObserved,
    UnexpectedStatus,
    after_commit,
    after_result,
    after_settlement,
)
from tests.core.parked import BROKEN, DONE, KEY, START, suspension

CONTAINED = Failed(
    error="runner exited with code 9 without pushing a terminal (crash containment epilogue)"
)
LOST = Failed(error="RUNTIME_RUNNER_LOST: silent")
WHY = Why("arbitration.pushed_terminal")


def test_a_suspended_result_is_parked() -> None:
    """A suspended result ends nothing (C21.2)."""
    found = after_result(Suspended(suspension=suspension()))

    assert found == ParkSuspended(suspension=suspension())


@pytest.mark.parametrize(
    ("result", "before", "rule"),
    [
        pytest.param(DONE, (), "terminal.completed", id="C21-attached-completed"),
        pytest.param(
            BROKEN,
            (BeforeCommit.READ_SETTLED_COUNTS,),
            "terminal.failed",
            id="C21-attached-failed-reads-counts",
        ),
        pytest.param(
            CONTAINED,
            (BeforeCommit.READ_SETTLED_COUNTS,),
            "terminal.crash_contained",
            id="C21-attached-crash-contained",
        ),
    ],
)
def test_attached(result: RunnerTerminal, before: tuple[BeforeCommit, ...], rule: str) -> None:
    """A result of this process is committed from running, without a log tail or a capture."""
    plan = after_result(result)

    assert isinstance(plan, CommitPlan)
    assert plan.before == before
    assert plan.result is result
    assert not plan.from_waiting
    assert not plan.preserve_runner_terminal
    assert not plan.keep_log_tail
    assert not plan.request_crash_diagnostic
    assert plan.why.rule == rule


@pytest.mark.parametrize(
    ("result", "own", "before", "captures"),
    [
        pytest.param(
            DONE, suspension(), (BeforeCommit.REPORT_CANARY,), False, id="C21-detached-completed"
        ),
        pytest.param(
            BROKEN,
            suspension(),
            (BeforeCommit.REPORT_CANARY, BeforeCommit.READ_SETTLED_COUNTS),
            False,
            id="C21-detached-failed",
        ),
        pytest.param(
            LOST,
            suspension(),
            (BeforeCommit.REPORT_CANARY, BeforeCommit.READ_SETTLED_COUNTS),
            True,
            id="C21-detached-lost-captures",
        ),
        pytest.param(
            LOST, None, (BeforeCommit.READ_SETTLED_COUNTS,), False, id="C35-no-own-suspension"
        ),
    ],
)
def test_detached(
    result: RunnerTerminal,
    own: DetachedSuspension | None,
    before: tuple[BeforeCommit, ...],
    captures: bool,
) -> None:
    """A detached end is committed from waiting, with the log tail, and yields to what is stored."""
    plan = after_settlement(result, WHY, own)

    assert plan.before == before
    assert plan.from_waiting
    assert plan.preserve_runner_terminal
    assert plan.keep_log_tail
    assert plan.request_crash_diagnostic is captures
    assert plan.why is WHY


@pytest.mark.parametrize(
    ("status", "committed_at", "kind"),
    [
        pytest.param(RunStatus.COMPLETED, START, Project, id="C21-committed-completed"),
        pytest.param(RunStatus.FAILED, START, Project, id="C21-committed-failed"),
        pytest.param(RunStatus.CANCELLED, START, UnexpectedStatus, id="C21-committed-cancelled"),
        pytest.param(RunStatus.RUNNING, START, UnexpectedStatus, id="C21-committed-running"),
        pytest.param(None, START, UnexpectedStatus, id="C21-committed-nothing"),
        pytest.param(RunStatus.CANCELLED, None, SettleObserved, id="C21-fence-lost-cancelled"),
        pytest.param(RunStatus.RUNNING, None, SettleObserved, id="C21-fence-lost-running"),
        pytest.param(None, None, SettleObserved, id="C21-fence-lost-gone"),
    ],
)
def test_after_commit(status: RunStatus | None, committed_at: datetime | None, kind: type) -> None:
    """The store's answer is projected, settled as observed, or an error of ours."""
    found = after_commit(KEY, status, committed_at, detached=True)

    assert type(found) is kind


def test_committed_event() -> None:
    """The event of a committed terminal has its exact fields."""
    found = after_commit(KEY, RunStatus.FAILED, START, detached=True)

    assert isinstance(found, Project)
    assert (found.event.channel, found.event.name) == (
        "absurd-runtime.worker",
        "terminal_committed",
    )
    assert found.event.fields == {
        "runId": "run-1",
        "generation": 2,
        "status": "failed",
        "fromDetachedRunner": True,
        "committedAtMs": 1_772_366_400_000,
    }


def test_unexpected_status_says_which() -> None:
    """The error names the status that the store gave."""
    found = after_commit(KEY, RunStatus.WAITING, START, detached=False)
    nothing = after_commit(KEY, None, START, detached=False)

    assert found == UnexpectedStatus(message="unexpected non-terminal claim status: waiting")
    assert nothing == UnexpectedStatus(message="unexpected non-terminal claim status: none")


def test_lost_fence_carries_the_status() -> None:
    """What the store said of the run saves the next reader a read."""
    found = after_commit(KEY, RunStatus.CANCELLED, None, detached=False)

    assert found == SettleObserved(
        source=ObservedTerminalSource.FENCE_LOST, status=RunStatus.CANCELLED
    )


@given(st.one_of(st.builds(Completed, output=st.none()), st.builds(Failed, error=st.text())))
def test_every_result_has_a_plan(result: RunnerTerminal) -> None:
    """Any terminal result is committed, attached or detached."""
    assert isinstance(after_result(result), CommitPlan)
    assert after_settlement(result, WHY, suspension()).result is result
