"""Submitting: launch, run, created fact and engine task in one commit (C07, I24–I26)."""

from collections.abc import Sequence
from typing import Protocol

import attrs

from deepline.core.model.identity import Lane, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.launch import Launch


@attrs.frozen(kw_only=True)
class Submission:
    """One launch with the play's input, for one lane.

    `input_json` is the input as given. `placement_key` is what `core.placement` made of the
    launch; a worker claims by keys it can run. With `continues` the run goes on from where the
    ended run that the launch is a retry of was: it is given that run's steps, receipts, rows that
    did not fail, and answers at suspension points.
    """

    launch: Launch
    lane: Lane
    input_json: Json
    placement_key: str
    max_engine_attempts: int
    finaliser_attempts: int
    continues: bool = False


@attrs.frozen(kw_only=True)
class SubmitReceipt:
    """What one submission found and did.

    `task_id` is `None` only when `task_recovery_required`: the run exists, its task does not.
    """

    run_id: RunId
    task_id: str | None
    run_created: bool
    task_created: bool
    task_recovery_required: bool


class Admission(Protocol):
    """The store's side of submit; atomic for each submission."""

    async def ensure_lane(self, lane: Lane, release_id: str | None) -> None:
        """Make the lane's queue ready; idempotent and safe under concurrent callers."""
        ...

    async def submit(
        self, submissions: Sequence[Submission], *, project_created: bool = False
    ) -> Sequence[SubmitReceipt]:
        """Commit all submissions together; when this returns, the work is claimable.

        A run id that exists already is answered, not changed; of two submissions with one run id
        the first makes it. Raises `NotFound` for a lane that was never made ready, and `Refused`
        (`launch_unusable`) for a launch that could not be read back; then nothing is written.

        With `project_created` the created fact is applied to the ledger in the same commit, which
        only a store that also holds the ledger can offer; otherwise the fact waits in the outbox.
        """
        ...

    async def recover_task(self, submission: Submission) -> SubmitReceipt:
        """Spawn the missing task of an existing run on the lane of its stored launch (C07.8)."""
        ...
