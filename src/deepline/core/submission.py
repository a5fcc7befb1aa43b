"""What one submission came to, and where a missing task is recovered (C07, Q09, I24, I25)."""

from typing import TypeAlias

import attrs

from deepline.core.model.launch import Launch
from deepline.core.model.why import Why
from deepline.core.queues import LaneChoice, lane_of_launch


@attrs.frozen(kw_only=True)
class Submitted:
    """The run and its task exist and the work is claimable."""

    task_id: str
    run_created: bool
    task_created: bool
    why: Why


@attrs.frozen(kw_only=True)
class RecoverTask:
    """The run exists without its task: read the stored launch and ask `recovery_lane`."""

    why: Why


@attrs.frozen(kw_only=True)
class RecoverOn:
    """Take a new permit and spawn the task on the stored launch's own lane."""

    lane: LaneChoice
    why: Why


@attrs.frozen(kw_only=True)
class SubmitContradiction:
    """The store's answer cannot be; fail the submission with `message`."""

    message: str
    why: Why


ReceiptDecision: TypeAlias = Submitted | RecoverTask | SubmitContradiction
RecoveryLane: TypeAlias = RecoverOn | SubmitContradiction
RecoveryDecision: TypeAlias = Submitted | SubmitContradiction


def classify_receipt(
    *, task_id: str | None, run_created: bool, task_created: bool, task_recovery_required: bool
) -> ReceiptDecision:
    """Say what the first receipt of a submission means."""
    if task_recovery_required:
        return RecoverTask(why=Why("submission.task_missing"))
    if not task_id:
        return SubmitContradiction(
            message="submit was answered without an Absurd task; submit again with the same run id",
            why=Why("submission.no_task"),
        )
    created = run_created and task_created
    return Submitted(
        task_id=task_id,
        run_created=run_created,
        task_created=task_created,
        why=Why("submission.created" if created else "submission.exists", {"task_id": task_id}),
    )


def recovery_lane(run_id: str, stored: Launch | None) -> RecoveryLane:
    """Choose the lane to recover on; the launch just submitted has no say in it."""
    if stored is None:
        return SubmitContradiction(
            message=f"run {run_id} requires task recovery but its launch row is missing",
            why=Why("submission.launch_missing", {"run_id": run_id}),
        )
    lane = lane_of_launch(stored)
    return RecoverOn(lane=lane, why=Why("submission.recover_on_stored_lane", lane.why.evidence))


def classify_recovery(*, task_id: str | None, task_created: bool) -> RecoveryDecision:
    """Say what the receipt of a recovery means; the run itself was there before."""
    if not task_id:
        return SubmitContradiction(
            message="task recovery did not create an Absurd task; submit again",
            why=Why("submission.recovery_without_task"),
        )
    return Submitted(
        task_id=task_id,
        run_created=False,
        task_created=task_created,
        why=Why("submission.recovered", {"task_id": task_id}),
    )
