"""What is measured of every run, whoever ends it (C58, FAULTS F77, F78).

Label values come from bounded sets: the states of a run, the names of rules, the places that notice
a lost fence. Waits and lengths count from the submission as its gateway stamped it.
"""

from datetime import datetime

from deepline.core.model.claim import Fresh
from deepline.core.model.launch import Launch
from deepline.core.model.run import RunStatus
from deepline.core.model.why import Why
from deepline.ports.telemetry import Telemetry


def tell_start(telemetry: Telemetry, fresh: Fresh) -> None:
    """A run's first attempt has begun: how long it waited."""
    if fresh.attempt.ref.attempt == 1 and fresh.launch.submitted_at is not None:
        waited = fresh.claim.claimed_at - fresh.launch.submitted_at
        telemetry.observe("run_wait_s", max(0.0, waited.total_seconds()))


def tell_end(
    telemetry: Telemetry,
    status: RunStatus,
    why: Why,
    *,
    launch: Launch | None,
    ended_at: datetime | None,
) -> None:
    """A run has ended by the rule that `why` names, at the store's `ended_at` if that is known."""
    telemetry.count("run_terminals", status=status.value)
    telemetry.count("run_ends", status=status.value, reason=why.rule)
    if launch is not None and launch.submitted_at is not None and ended_at is not None:
        took = ended_at - launch.submitted_at
        telemetry.observe("run_duration_s", max(0.0, took.total_seconds()), status=status.value)


def tell_refused(telemetry: Telemetry, operation: str) -> None:
    """A write was refused because its attempt is over or another's."""
    telemetry.count("stale_writes_refused", operation=operation)
