"""Receipts of submissions and the lane of a recovery (C07, Q09, I24, I25)."""

import itertools

import pytest

from deepline.core.model.identity import OrgId, ReleaseId, RunId
from deepline.core.model.launch import Launch
from deepline.core.queues import lane_of_release
from deepline.core.submission import (
    RecoverOn,
    RecoverTask,
    SubmitContradiction,
    Submitted,
    classify_receipt,
    classify_recovery,
    recovery_lane,
)

STORED = Launch(
    run_id=RunId("run-1"),
    org_id=OrgId("org-1"),
    play_name="play",
    graph_hash="g",
    base_url="https://gateway.example",
    release_id=ReleaseId("first-release"),
)


@pytest.mark.parametrize(
    ("run_created", "task_created", "rule"),
    [
        pytest.param(True, True, "submission.created", id="C07-new-run-new-task"),
        pytest.param(False, False, "submission.exists", id="C07-run-exists-task-exists"),
        pytest.param(True, False, "submission.exists", id="C07-task-was-there-first"),
        pytest.param(False, True, "submission.exists", id="C07-task-was-missing"),
    ],
)
def test_a_receipt_with_a_task_is_a_success(
    rule: str, *, run_created: bool, task_created: bool
) -> None:
    """A repeated submission is an idempotent success that says what it created."""
    decision = classify_receipt(
        task_id="task-1",
        run_created=run_created,
        task_created=task_created,
        task_recovery_required=False,
    )

    assert isinstance(decision, Submitted)
    assert (decision.task_id, decision.run_created, decision.task_created) == (
        "task-1",
        run_created,
        task_created,
    )
    assert decision.why.rule == rule


@pytest.mark.parametrize(
    ("task_id", "recovery", "kind", "rule"),
    [
        pytest.param(None, True, RecoverTask, "task_missing", id="C07-run-exists-task-missing"),
        pytest.param("task", True, RecoverTask, "task_missing", id="C07-recovery-goes-first"),
        pytest.param(None, False, SubmitContradiction, "no_task", id="C07-no-task-no-reason"),
        pytest.param("", False, SubmitContradiction, "no_task", id="C07-empty-task"),
    ],
)
def test_a_receipt_without_a_task(
    task_id: str | None, kind: type, rule: str, *, recovery: bool
) -> None:
    """A run without its task is recovered; an answer that cannot be is an error."""
    decision = classify_receipt(
        task_id=task_id, run_created=False, task_created=False, task_recovery_required=recovery
    )

    assert isinstance(decision, kind)
    assert decision.why.rule == f"submission.{rule}"


def test_recovery_rides_the_stored_lane() -> None:
    """The stored launch alone says where its task goes."""
    decision = recovery_lane("run-1", STORED)

    assert isinstance(decision, RecoverOn)
    assert decision.lane.lane == lane_of_release(ReleaseId("first-release"))
    assert decision.lane.release_id == "first-release"


def test_recovery_without_a_launch_is_an_error() -> None:
    """A run whose launch is gone cannot be recovered, and the message says which run."""
    decision = recovery_lane("run-1", None)

    assert isinstance(decision, SubmitContradiction)
    assert "run-1 requires task recovery but its launch row is missing" in decision.message


@pytest.mark.parametrize("task_id", [None, ""])
def test_recovery_that_makes_no_task_is_an_error(task_id: str | None) -> None:
    """A recovery must end with a task."""
    decision = classify_recovery(task_id=task_id, task_created=True)

    assert isinstance(decision, SubmitContradiction)
    assert "task recovery did not create an Absurd task" in decision.message


@pytest.mark.parametrize("task_created", [True, False])
def test_a_recovered_run_was_not_created_now(*, task_created: bool) -> None:
    """A recovery says that the run was there, and whether the task is its own doing."""
    decision = classify_recovery(task_id="task-2", task_created=task_created)

    assert isinstance(decision, Submitted)
    assert (decision.task_id, decision.run_created, decision.task_created) == (
        "task-2",
        False,
        task_created,
    )
    assert decision.why.rule == "submission.recovered"


def test_every_receipt_gets_one_answer() -> None:
    """All combinations of what a receipt may say: success always has a task id."""
    flags = (False, True)
    for task_id, run, task, recovery in itertools.product((None, "", "t"), flags, flags, flags):
        decision = classify_receipt(
            task_id=task_id, run_created=run, task_created=task, task_recovery_required=recovery
        )

        assert isinstance(decision, RecoverTask) is recovery
        assert isinstance(decision, Submitted) is (task_id == "t" and not recovery)
