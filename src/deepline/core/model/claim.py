"""A claim of an engine run, and what the store found when it prepared an attempt for it (C12)."""

from datetime import datetime, timedelta
from typing import TypeAlias

import attrs

from deepline.core.model.attempt import Attempt
from deepline.core.model.identity import Lane, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.run import RunStatus


@attrs.frozen(kw_only=True)
class Claim:
    """The right to work on a run until the lease ends; `owner` is unique per claim call.

    `engine_attempt` counts from 1 and grows only when a claim is lost or failed;
    `max_engine_attempts` excludes the finaliser attempts, and is `None` when the engine does
    not know it.
    """

    run_id: RunId
    lane: Lane
    task_id: str
    engine_run_id: str
    owner: str
    engine_attempt: int
    max_engine_attempts: int | None
    claimed_at: datetime
    """The store's clock when the claim was made; decisions about durable instants start from it."""

    @property
    def is_finaliser(self) -> bool:
        """True when only the terminal may still be written."""
        return (
            self.max_engine_attempts is not None and self.engine_attempt > self.max_engine_attempts
        )

    @property
    def is_final(self) -> bool:
        """True when no further engine attempt may execute the run."""
        return (
            self.max_engine_attempts is not None and self.engine_attempt >= self.max_engine_attempts
        )


@attrs.frozen(kw_only=True)
class Fresh:
    """An attempt was created and is running under its fence; nothing of the play has started."""

    claim: Claim
    launch: Launch
    attempt: Attempt


@attrs.frozen(kw_only=True)
class Wake:
    """A parked attempt is due: it still is `waiting` under its original fence.

    Also the answer when a worker died between starting a runner and parking: the attempt is then
    put to `waiting` under a fresh lease token, since its sandbox may already run the play, and
    `adopted` says so: the start itself may not have happened.
    """

    claim: Claim
    launch: Launch
    attempt: Attempt
    adopted: bool = False


@attrs.frozen(kw_only=True)
class CreatedPending:
    """The run's created fact is not acknowledged yet; no attempt exists for this claim (C13)."""

    claim: Claim
    launch: Launch
    retry_after: timedelta


@attrs.frozen(kw_only=True)
class Misplaced:
    """This worker may not run this launch; no attempt was created (C14)."""

    claim: Claim
    launch: Launch


@attrs.frozen(kw_only=True)
class Exhausted:
    """The engine attempts are used up and this is a finaliser: only settle (ENGINE: finaliser).

    `attempt` is the newest attempt, live or not; `None` when none ever existed.
    """

    claim: Claim
    launch: Launch
    attempt: Attempt | None


@attrs.frozen(kw_only=True)
class AlreadyTerminal:
    """The run ended by another hand; the engine task is complete or will be (C27)."""

    claim: Claim
    launch: Launch
    status: RunStatus


@attrs.frozen(kw_only=True)
class Missing:
    """No run row (Q11: complete the task, there is nothing to settle)."""

    claim: Claim


@attrs.frozen(kw_only=True)
class LaunchMissing:
    """The run exists but its launch does not: an ordinary failure (Q11)."""

    claim: Claim


Prepared: TypeAlias = (
    Fresh
    | Wake
    | CreatedPending
    | Misplaced
    | Exhausted
    | AlreadyTerminal
    | Missing
    | LaunchMissing
)
