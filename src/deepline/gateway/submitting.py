"""Submitting: permit, lane, one commit, and the recovery of a task that went missing (C07)."""

from collections.abc import Sequence

import attrs

from deepline.core.attachment import initial_state
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.placement import placement_key
from deepline.core.queues import LaneChoice, lane_of_launch
from deepline.core.submission import (
    RecoverTask,
    SubmitContradiction,
    Submitted,
    classify_receipt,
    classify_recovery,
    recovery_lane,
)
from deepline.gateway.authentication import Principal
from deepline.gateway.context import Gateway
from deepline.gateway.launch_request import LaunchRequest
from deepline.gateway.problems import Problem
from deepline.ports.admission import Submission, SubmitReceipt

_SUBMIT = "absurd-runtime.submit"
_PERF = "perf"


@attrs.frozen(kw_only=True)
class Handle:
    """What the submitter gets: the run, where it rides, and what was found or made (C07.10)."""

    run_id: RunId
    lane: LaneChoice
    submitted: Submitted


@attrs.frozen(kw_only=True)
class Rejected:
    """One submission of several that could not be answered; the others stand."""

    run_id: RunId
    status: int
    code: str
    detail: str


class Submitter:
    """Carries submissions into the store in the order that C07 demands."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._ports = gateway.ports
        self._settings = gateway.settings

    async def submit(
        self,
        requests: Sequence[LaunchRequest],
        principal: Principal,
        *,
        trace_parent: str | None = None,
    ) -> Sequence[Handle | Rejected]:
        """Submit all in one commit. Raises `CapacityExceeded` when no permit came in time."""
        # A run that is run again begins a trace of its own, which leads back to the first one's.
        links = [one.retried_trace for one in requests if one.retried_trace is not None]
        with self._ports.tracing.span(
            "deepline.submit",
            parent=trace_parent,
            attributes={"deepline.runs": len(requests)},
            links=links,
        ) as parent:
            return await self._submit(requests, principal, parent)

    async def _submit(
        self,
        requests: Sequence[LaunchRequest],
        principal: Principal,
        trace_parent: str | None,
    ) -> Sequence[Handle | Rejected]:
        started_at = self._ports.clock.monotonic()
        submissions = [self._submission(request, trace_parent) for request in requests]
        async with self._gateway.gate.permit() as permit:
            for submission in submissions:
                self._trace(
                    submission, "submit_admitted", started_at,
                    queueDepth=permit.queue_depth, waitMs=permit.wait_ms,
                )  # fmt: skip
            await self._ensure_lanes(submissions)
            for submission in submissions:
                self._trace(submission, "schema_ready", started_at)
                self._log_enqueue(submission)
            receipts = await self._gateway.write(
                self._ports.admission.submit,
                submissions,
                project_created=self._settings.colocated_ledger,
            )
        answers: list[Handle | Rejected] = []
        for submission, receipt in zip(submissions, receipts, strict=True):
            answer = await self._settle(submission, receipt, principal)
            if isinstance(answer, Handle):
                self._trace(
                    submission, "spawned", started_at,
                    created=answer.submitted.run_created,
                    taskCreated=answer.submitted.task_created, queue=answer.lane.lane,
                )  # fmt: skip
            answers.append(answer)
        return answers

    async def _ensure_lanes(self, submissions: Sequence[Submission]) -> None:
        releases = {one.lane: one.launch.release_id for one in submissions}
        for lane, release_id in releases.items():
            await self._ports.admission.ensure_lane(lane, release_id)

    async def _settle(
        self, submission: Submission, receipt: SubmitReceipt, principal: Principal
    ) -> Handle | Rejected:
        run_id = submission.launch.run_id
        if not receipt.run_created and not await self._owns(run_id, principal):
            return Rejected(
                run_id=run_id,
                status=409,
                code="run_id_taken",
                detail="This run id is in use elsewhere; submit with another, or without one.",
            )
        decision = classify_receipt(
            task_id=receipt.task_id,
            run_created=receipt.run_created,
            task_created=receipt.task_created,
            task_recovery_required=receipt.task_recovery_required,
        )
        if isinstance(decision, RecoverTask):
            return await self._recover(submission)
        if isinstance(decision, SubmitContradiction):
            return _contradiction(run_id, decision)
        if not receipt.run_created:
            return await self._existing(submission, decision)
        return Handle(run_id=run_id, lane=lane_of_launch(submission.launch), submitted=decision)

    async def _owns(self, run_id: RunId, principal: Principal) -> bool:
        return await self._ports.runs.read(run_id, principal.org_id) is not None

    async def _existing(self, submission: Submission, decision: Submitted) -> Handle:
        """A run that was there already rides the lane of its stored launch, not of this request."""
        run_id = submission.launch.run_id
        stored = await self._ports.launches.read(run_id, caller="scheduler_submit_existing")
        launch = submission.launch if stored is None else stored
        return Handle(run_id=run_id, lane=lane_of_launch(launch), submitted=decision)

    async def _recover(self, submission: Submission) -> Handle | Rejected:
        run_id = submission.launch.run_id
        stored = await self._ports.launches.read(run_id, caller="scheduler_submit_recovery")
        where = recovery_lane(run_id, stored)
        if isinstance(where, SubmitContradiction) or stored is None:
            assert isinstance(where, SubmitContradiction)
            return _contradiction(run_id, where)
        again = attrs.evolve(
            submission,
            launch=stored,
            lane=where.lane.lane,
            placement_key=placement_key(stored),
            input_json=None,
        )
        async with self._gateway.gate.permit():
            await self._ports.admission.ensure_lane(again.lane, where.lane.release_id)
            self._log_enqueue(again)
            receipt = await self._gateway.write(self._ports.admission.recover_task, again)
        decision = classify_recovery(task_id=receipt.task_id, task_created=receipt.task_created)
        if isinstance(decision, SubmitContradiction):
            return _contradiction(run_id, decision)
        return Handle(run_id=run_id, lane=where.lane, submitted=decision)

    def _submission(self, request: LaunchRequest, trace_parent: str | None) -> Submission:
        limits = self._settings.limits
        launch = attrs.evolve(
            request.launch, submitted_at=self._ports.clock.now(), trace_parent=trace_parent
        )
        return Submission(
            launch=launch,
            lane=lane_of_launch(launch).lane,
            input_json=request.input_json,
            placement_key=placement_key(launch),
            max_engine_attempts=limits.max_engine_attempts,
            finaliser_attempts=limits.finaliser_attempts,
            continues=request.continues,
        )

    def _log_enqueue(self, submission: Submission) -> None:
        launch = submission.launch
        self._ports.telemetry.info(
            _SUBMIT,
            "enqueue",
            runId=launch.run_id,
            orgId=launch.org_id,
            queue=submission.lane,
            releaseId=launch.release_id,
            schedulerSchema=launch.scheduler_schema,
            queueSuffix=launch.queue_suffix,
        )

    def _trace(self, submission: Submission, phase: str, started_at: float, **extra: Json) -> None:
        launch = submission.launch
        elapsed_s = self._ports.clock.monotonic() - started_at
        self._ports.telemetry.info(
            _PERF,
            f"server.absurd_{phase}",
            source="server",
            runId=launch.run_id,
            playName=launch.play_name,
            graphHash=launch.graph_hash,
            phase=f"server.absurd_{phase}",
            ms=round(elapsed_s * 1000),
            **extra,
        )


def handle_answer(handle: Handle, scheduler_schema: str | None) -> JsonObject:
    """A handle as the API answers it."""
    state = initial_state(handle.submitted, handle.lane, scheduler_schema)
    return {"runId": handle.run_id, "queue": handle.lane.lane, **state}


def rejected_answer(rejected: Rejected) -> JsonObject:
    """A rejected one of a batch."""
    return {"runId": rejected.run_id, "code": rejected.code, "detail": rejected.detail}


def rejected_problem(rejected: Rejected) -> Problem:
    """The same for a submission that came alone."""
    return Problem(rejected.status, rejected.code, rejected.detail)


def _contradiction(run_id: RunId, decision: SubmitContradiction) -> Rejected:
    return Rejected(
        run_id=run_id, status=500, code="submit_contradiction", detail=f"{decision.message}."
    )
