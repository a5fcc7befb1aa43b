"""A parked run in a few words, for the tests of suspension, silence and arbitration."""

from datetime import UTC, datetime, timedelta

from deepline.core.limits import Limits
from deepline.core.model.attempt import Attempt, AttemptStatus
from deepline.core.model.checkpoint import Checkpoint, SilenceProof, SilenceWatch
from deepline.core.model.heartbeat import NEVER_BEATEN, HeartbeatIdentity, Liveness
from deepline.core.model.identity import AttemptKey, AttemptRef, LeaseToken, RunId
from deepline.core.model.result import Completed, Failed, RunnerTerminal, Suspended
from deepline.core.model.suspension import DetachedSuspension, Suspension

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TIMEOUT = timedelta(seconds=60)
CADENCE = timedelta(seconds=15)
CEILING = timedelta(hours=1)
LIMITS = Limits()
KEY = AttemptKey(RunId("run-1"), 2)
REF = AttemptRef(KEY.run_id, KEY.attempt, LeaseToken("secret"))
DONE = Completed(output={"rows": 3})
BROKEN = Failed(error="PLAY_FAILED: no rows")
INSTANT = timedelta(microseconds=1)


def at(seconds: float) -> datetime:
    """So many seconds after the runner started."""
    return START + timedelta(seconds=seconds)


def beat(seconds: float | None, sequence: int = 1) -> Liveness:
    """A heart that last beat so many seconds after the start; `None` never beat."""
    if seconds is None:
        return Liveness(NEVER_BEATEN, None, "waiting")
    return Liveness(HeartbeatIdentity(f"beat#{sequence}"), at(seconds), "waiting")


def suspension(
    *, timeout: timedelta | None = TIMEOUT, boundary: str = "b-1", attempt: int = 2
) -> DetachedSuspension:
    """A detached runner started at `START` with an hour to go."""
    return DetachedSuspension(
        boundary_id=boundary,
        runner_attempt=attempt,
        sandbox_id="sb-1",
        sandbox_provider="daytona",
        session_id="se-1",
        command_id="co-1",
        started_at=START,
        ceiling=CEILING,
        heartbeat_timeout=timeout,
        routing_domain="org-a",
    )


def proof(liveness: Liveness | None, *, boundary: str = "b-1", attempt: int = 2) -> SilenceProof:
    """The proof that would be right for this heart on `suspension()`."""
    heartbeat = NEVER_BEATEN if liveness is None else liveness.identity
    return SilenceProof(boundary_id=boundary, runner_attempt=attempt, heartbeat=heartbeat)


def watch(liveness: Liveness, slices: int, *, boundary: str = "b-1") -> SilenceWatch:
    """A watch of this heart that has counted so many slices."""
    return SilenceWatch(
        boundary_id=boundary,
        runner_attempt=2,
        heartbeat=liveness.identity,
        silent_slices=slices,
    )


def parked(
    on: Suspension | None,
    *,
    liveness: Liveness | None = None,
    checkpoint: Checkpoint | None = None,
    silence: SilenceWatch | None = None,
    terminal: RunnerTerminal | None = None,
    pending: Suspended | None = None,
) -> Attempt:
    """A waiting attempt as its row stands."""
    return Attempt(
        ref=REF,
        status=AttemptStatus.WAITING,
        engine_attempt=1,
        liveness=beat(None) if liveness is None else liveness,
        created_at=START,
        suspension=on,
        suspension_malformed=on is None,
        checkpoint=Checkpoint() if checkpoint is None else checkpoint,
        silence=silence,
        runner_terminal=terminal,
        pending=pending,
    )
