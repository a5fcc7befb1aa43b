"""What a worker does after a committed terminal, in order; none of it can change the truth (C24).

Every step is best effort: a failure of one is logged and the next goes on (I30).
"""

import enum
from datetime import datetime

from deepline.core.model.run import RunStatus

COMMITTED_TRIGGER = "committed_terminal"


class ProjectionStep(enum.StrEnum):
    """One step after the terminal.

    `FINALISE_PROGRESS` is started and not waited for. `REQUEST_DISPATCH` asks for an immediate
    delivery of the outbox with trigger `committed_terminal` (C25).
    """

    RECONCILE_TRUTH = "reconcile_truth"
    RELEASE_FAILED_ATTEMPT = "release_failed_attempt"
    FINALISE_PROGRESS = "finalise_progress"
    REQUEST_DISPATCH = "request_dispatch"
    RELEASE_FENCE_LOST = "release_fence_lost"
    SETTLE_OBSERVED = "settle_observed"


def after_committed(status: RunStatus) -> tuple[ProjectionStep, ...]:
    """The steps after this worker committed the terminal."""
    release = (ProjectionStep.RELEASE_FAILED_ATTEMPT,) if status is RunStatus.FAILED else ()
    return (
        ProjectionStep.RECONCILE_TRUTH,
        *release,
        ProjectionStep.FINALISE_PROGRESS,
        ProjectionStep.REQUEST_DISPATCH,
    )


def after_fence_lost() -> tuple[ProjectionStep, ...]:
    """The steps when another hand holds or ended the run: release, then settle what is there."""
    return (ProjectionStep.RELEASE_FENCE_LOST, ProjectionStep.SETTLE_OBSERVED)


def projection_start(stamped: datetime | None, now: datetime) -> datetime:
    """When the projection began: stamped at the truth reconcile, the first time only (A7)."""
    return now if stamped is None else stamped
