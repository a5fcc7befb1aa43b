"""Submitting in memory: launch, run, created fact and held-back task in one step (C07)."""

from collections.abc import Sequence

from deepline.adapters.memory.continuing import continue_run
from deepline.adapters.memory.rows import LaneRow, LaunchRow, RunRow
from deepline.adapters.memory.run_events import apply_facts
from deepline.adapters.memory.world import Port
from deepline.core.instants import to_ms
from deepline.core.model.identity import Lane, ReleaseId, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.launch import Launch
from deepline.core.model.ledger import CREATED, created_event_id
from deepline.ports.admission import Submission, SubmitReceipt
from deepline.ports.errors import NotFound
from deepline.ports.wire import check_launch


class MemoryAdmission(Port):
    """The store's side of submit."""

    async def ensure_lane(self, lane: Lane, release_id: str | None) -> None:
        """Make the lane's queue ready; idempotent."""

        def effect() -> None:
            release = None if release_id is None else ReleaseId(release_id)
            made = LaneRow(lane=lane, release_id=release, created_at=self.world.now())
            self.world.lanes.setdefault(lane, made)
            self.world.queue.add_lane(lane)

        await self._step("admission.ensure_lane", effect)

    async def submit(
        self, submissions: Sequence[Submission], *, project_created: bool = False
    ) -> Sequence[SubmitReceipt]:
        """Commit all submissions together."""
        for submission in submissions:
            check_launch(submission.launch)

        def effect() -> Sequence[SubmitReceipt]:
            for submission in submissions:
                self._require_lane(submission.lane)
            created: set[RunId] = set()
            for submission in sorted(submissions, key=lambda one: one.launch.run_id):
                run_id = submission.launch.run_id
                if run_id not in self.world.runs:
                    self._submit(submission, project_created=project_created)
                    created.add(run_id)
            return [self._receipt(submission, created) for submission in submissions]

        return await self._step("admission.submit", effect)

    def _receipt(self, submission: Submission, created: set[RunId]) -> SubmitReceipt:
        """What one submission did; of two with the same run id the first made the run."""
        run = self.world.runs[submission.launch.run_id]
        first = run.run_id in created
        created.discard(run.run_id)
        return _receipt(run, run_created=first, task_created=first)

    async def recover_task(self, submission: Submission) -> SubmitReceipt:
        """Spawn the missing task on the lane of the stored launch."""
        return await self._step("admission.recover_task", lambda: self._recover(submission))

    def _require_lane(self, lane: Lane) -> None:
        if not self.world.queue.has_lane(lane):
            raise NotFound(f"lane {lane} is not ready; make it ready with ensure_lane first")

    def _submit(self, submission: Submission, *, project_created: bool) -> None:
        run = self._add_run(submission)
        self._spawn(run, submission)
        if project_created:
            self._project_created(run)

    def _add_run(self, submission: Submission) -> RunRow:
        world, launch = self.world, submission.launch
        world.launches[launch.run_id] = LaunchRow(launch, submission.input_json)
        run = RunRow(
            run_id=launch.run_id,
            org_id=launch.org_id,
            play_name=launch.play_name,
            lane=submission.lane,
            release_id=launch.release_id,
            placement_key=submission.placement_key,
            created_at=world.now(),
            task_id=None,
        )
        world.runs[run.run_id] = run
        if launch.retry_of is not None:
            world.retries.setdefault(launch.retry_of, []).append(run.run_id)
            if submission.continues:
                continue_run(world, run.run_id, launch.retry_of)
        event_id = created_event_id(run.run_id)
        world.append_fact(run.run_id, event_id, CREATED, created_payload(run, launch))
        return run

    def _spawn(self, run: RunRow, submission: Submission) -> None:
        world = self.world
        task = world.queue.spawn_held(
            run.lane,
            run.run_id,
            engine=submission.max_engine_attempts,
            finaliser=submission.finaliser_attempts,
        )
        run.task_id = task.task_id
        if run.admitted_at is None:
            orgs = world.held_back.setdefault(run.lane, {})
            orgs.setdefault(run.org_id, {})[run.run_id] = None
        else:
            world.queue.make_due(task.current, world.now())
        world.hint("lane_woken", run.lane)

    def _project_created(self, run: RunRow) -> None:
        world = self.world
        (row,) = world.outbox[run.run_id]
        apply_facts(world, [row.fact])
        row.delivered_at = run.created_projected_at = world.now()
        del world.undelivered[run.run_id]

    def _recover(self, submission: Submission) -> SubmitReceipt:
        run = self.world.runs.get(submission.launch.run_id)
        if run is None:
            raise NotFound(f"run {submission.launch.run_id} does not exist")
        if run.task_id is not None or run.ended:
            return _receipt(run, run_created=False, task_created=False)
        self._require_lane(run.lane)
        self._spawn(run, submission)
        return _receipt(run, run_created=False, task_created=True)


def created_payload(run: RunRow, launch: Launch) -> dict[str, Json]:
    """What the created fact tells."""
    return {
        "runId": run.run_id,
        "orgId": run.org_id,
        "playName": run.play_name,
        "lane": run.lane,
        "releaseId": run.release_id,
        "retryOf": launch.retry_of,
        "createdAtMs": to_ms(run.created_at),
    }


def _receipt(run: RunRow, *, run_created: bool, task_created: bool) -> SubmitReceipt:
    return SubmitReceipt(
        run_id=run.run_id,
        task_id=run.task_id,
        run_created=run_created,
        task_created=task_created,
        task_recovery_required=run.task_id is None and not run.ended,
    )
