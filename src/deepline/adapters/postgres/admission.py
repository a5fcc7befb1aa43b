"""Submitting on Postgres: launch, run, created fact and engine task in one commit (C05, C07)."""

from collections.abc import Collection, Sequence
from datetime import timedelta

import psycopg

from deepline.adapters.postgres.rows import Document
from deepline.adapters.postgres.steps import Steps
from deepline.core.limits import Limits
from deepline.core.model.identity import Lane, RunId
from deepline.core.model.json_value import Json
from deepline.ports.admission import Submission, SubmitReceipt
from deepline.ports.errors import NotFound
from deepline.ports.wire import check_launch, launch_to_json

SUBMIT_TRIES = 3
"""How often a submit is made whose lane is pruned at that moment."""


class PostgresAdmission:
    """Implements `Admission`."""

    def __init__(self, steps: Steps, limits: Limits) -> None:
        self._steps = steps
        self._limits = limits
        self._ready: set[Lane] = set()
        self._releases: dict[Lane, str | None] = {}

    async def ensure_lane(self, lane: Lane, release_id: str | None) -> None:
        """Make the lane's queue ready; asks the database once a process."""
        if lane not in self._ready:
            await self._steps.call("ensure_lane", lane, release_id)
            self._ready.add(lane)
            self._releases[lane] = release_id

    async def submit(
        self, submissions: Sequence[Submission], *, project_created: bool = False
    ) -> Sequence[SubmitReceipt]:
        """Commit all submissions together; each lane hears of it once.

        A single one shares its transaction with others that are submitted at that moment.
        A lane that was pruned since this process made it ready is made again. Raises `NotFound`
        for one that it never made ready, `Refused` for a launch that is no use.
        """
        if not submissions:
            return []
        for submission in submissions:
            check_launch(submission.launch)
        lanes = {one.lane for one in submissions}
        for _ in range(SUBMIT_TRIES - 1):
            try:
                return await self._submit(submissions, project_created)
            except NotFound:
                if lanes.isdisjoint(self._releases):
                    raise
            await self._make_again(lanes)
        return await self._submit(submissions, project_created)

    async def _make_again(self, lanes: Collection[Lane]) -> None:
        """Make those of these lanes again that this process made ready once."""
        known = [lane for lane in lanes if lane in self._releases]
        self._ready.difference_update(known)
        for lane in known:
            await self.ensure_lane(lane, self._releases[lane])

    async def _submit(
        self,
        submissions: Sequence[Submission],
        project_created: bool,  # noqa: FBT001
    ) -> Sequence[SubmitReceipt]:
        requests = [self._request(submission) for submission in submissions]
        # Few runs go on from others, and all others are spared the look.
        function = "submit_continued" if any(one.continues for one in submissions) else "submit"
        try:
            answers: Sequence[Json]
            if len(requests) == 1:
                answers = [await self._steps.write(function, requests[0], project_created)]
            else:
                answers = await self._steps.write_together(function, requests, project_created)
        except psycopg.errors.UndefinedTable as error:
            raise NotFound("a lane of these submissions was never made ready") from error
        return [
            _receipt(submission.launch.run_id, answer)
            for submission, answer in zip(submissions, answers, strict=True)
        ]

    async def recover_task(self, submission: Submission) -> SubmitReceipt:
        """Spawn the missing task on the run's own lane. Raises `NotFound` without a run."""
        run_id = submission.launch.run_id
        answer = await self._steps.write("recover_task", self._request(submission))
        if answer is None:
            raise NotFound(f"there is no run {run_id} whose task could be recovered")
        return _receipt(run_id, answer)

    def _request(self, submission: Submission) -> dict[str, Json]:
        launch = submission.launch
        return {
            "run_id": launch.run_id,
            "org_id": launch.org_id,
            "play_name": launch.play_name,
            "lane": submission.lane,
            "release_id": launch.release_id,
            "placement_key": submission.placement_key,
            "retry_of": launch.retry_of,
            "continues": submission.continues,
            "launch": launch_to_json(launch),
            "input": submission.input_json,
            "params": {
                "run_id": launch.run_id,
                "max_engine_attempts": submission.max_engine_attempts,
            },
            "options": {
                "idempotency_key": launch.run_id,
                "max_attempts": submission.max_engine_attempts + submission.finaliser_attempts,
                "headers": {"org": launch.org_id},
                "retry_strategy": {
                    "kind": "exponential",
                    "base_seconds": _seconds(self._limits.retry_base),
                    "factor": self._limits.retry_factor,
                    "max_seconds": _seconds(self._limits.retry_max),
                },
            },
        }


def _seconds(length: timedelta) -> float:
    return length.total_seconds()


def _receipt(run_id: RunId, answer: Json) -> SubmitReceipt:
    assert isinstance(answer, dict)
    row: Document = answer
    return SubmitReceipt(
        run_id=run_id,
        task_id=None if row["task_recovery_required"] else row["task_id"],
        run_created=row["run_created"],
        task_created=row["task_created"],
        task_recovery_required=row["task_recovery_required"],
    )
