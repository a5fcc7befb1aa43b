"""How runs end on Postgres: everything of an end in one commit (C09, C20, C21, C32, C65)."""

from typing import Any

from deepline.adapters.postgres.rows import (
    Document,
    fence_fields,
    instant,
    key_fields,
    optional,
    stored_terminal,
    work_fields,
)
from deepline.adapters.postgres.steps import Steps
from deepline.core.model.heartbeat import ExpectHeartbeat, HeartbeatFence
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.result import RunnerTerminal, Suspended
from deepline.core.model.run import RunStatus
from deepline.core.model.why import Why
from deepline.ports.terminals import (
    Cancelled,
    CancelOutcome,
    CommitOutcome,
    Committed,
    NotCancelled,
    NotCommitted,
    OfferAlreadyStored,
    OfferOutcome,
    OfferRefused,
    OfferStored,
    SuspendOutcome,
    SuspensionAlreadyStored,
    SuspensionRefused,
    SuspensionStored,
    TerminalCommit,
    Unstarted,
)
from deepline.ports.wire import result_to_json, why_to_json

_SETTLEMENT = "settlement"


class PostgresTerminals:
    """Implements `Terminals`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def commit(self, commit: TerminalCommit) -> CommitOutcome:
        """End the run under its fences.

        A claim whose engine attempts are used up may also end a run whose newest attempt was
        retired: nobody else could.
        """
        answer = await self._ask("commit_terminals", _commit_request(commit))
        if not answer["committed"]:
            return NotCommitted(status=optional(RunStatus, answer["status"]))
        kept = answer["result"]
        return Committed(
            status=RunStatus(answer["status"]),
            result=commit.result if kept is None else stored_terminal(kept),
            committed_at=instant(answer["at"]),
        )

    async def offer(
        self, key: AttemptKey, terminal: RunnerTerminal, fence: HeartbeatFence, why: Why
    ) -> OfferOutcome:
        """Store the attempt's first terminal and wake its run."""
        fenced = isinstance(fence, ExpectHeartbeat)
        answer = await self._ask(
            "offer_terminals",
            key_fields(key)
            | {
                "terminal": result_to_json(terminal),
                "fenced": fenced,
                "heartbeat": fence.identity.value if isinstance(fence, ExpectHeartbeat) else None,
                "why": why_to_json(why),
            },
        )
        match answer["outcome"]:
            case "stored":
                return OfferStored()
            case "already_stored":
                return OfferAlreadyStored()
            case _:
                return OfferRefused(
                    liveness_exists=answer["liveness_exists"],
                    suspended=answer.get("suspended", False),
                )

    async def suspend(self, key: AttemptKey, suspended: Suspended, why: Why) -> SuspendOutcome:
        """Store the suspension a runner hands in, and wake its run."""
        answer = await self._ask(
            "suspend_attempts",
            key_fields(key) | {"pending": result_to_json(suspended), "why": why_to_json(why)},
        )
        if "refused" in answer:
            return SuspensionRefused(answer["refused"])
        return SuspensionStored() if answer["stored"] else SuspensionAlreadyStored()

    async def stored(self, key: AttemptKey) -> RunnerTerminal | None:
        """Read the terminal stored on an attempt."""
        rows = await self._steps.read(
            "select runner_terminal from {schema}.attempts where run_id = %s and attempt = %s",
            key.run_id,
            key.attempt,
        )
        return optional(stored_terminal, rows[0][0]) if rows else None

    async def cancel(self, run_id: RunId, *, by: str, reason: str, why: Why) -> CancelOutcome:
        """End the run as cancelled if it has not ended."""
        return await self._cancel(run_id, by, reason, why, None)

    async def cancel_unstarted(
        self, run_id: RunId, condition: Unstarted, *, reason: str, why: Why
    ) -> CancelOutcome:
        """Cancel a run which has no attempt yet (I28)."""
        return await self._cancel(run_id, _SETTLEMENT, reason, why, condition)

    async def status(self, run_id: RunId) -> RunStatus | None:
        """Read the run's status."""
        rows = await self._steps.read("select status from {schema}.runs where run_id = %s", run_id)
        return RunStatus(str(rows[0][0])) if rows else None

    async def _cancel(
        self, run_id: RunId, by: str, reason: str, why: Why, condition: Unstarted | None
    ) -> CancelOutcome:
        answer = await self._ask(
            "cancel_runs",
            {
                "run_id": run_id,
                "cancelled_by": by,
                "reason": reason,
                "why": why_to_json(why),
                "unstarted": condition is not None,
                "release_id": None if condition is None else condition.release_id,
                "task_id": None if condition is None else condition.task_id,
                "task_over": condition is not None and condition.task_over,
            },
        )
        if answer["cancelled"]:
            return Cancelled(had_attempt=answer["had_attempt"])
        return NotCancelled(status=optional(RunStatus, answer["status"]))

    async def _ask(self, function: str, request: dict[str, Json]) -> Document:
        answer: Any = await self._steps.write(function, request)
        assert isinstance(answer, dict)
        return answer


def _commit_request(commit: TerminalCommit) -> dict[str, Json]:
    ref, claim = commit.ref, commit.claim
    return (fence_fields(ref) if claim is None else work_fields(ref, claim)) | {
        "finaliser": claim is not None and claim.is_finaliser,
        "result": result_to_json(commit.result),
        "why": why_to_json(commit.why),
        "from_waiting": commit.from_waiting,
        "preserve": commit.preserve_runner_terminal,
        "settled": [
            {"event_id": fact.event_id, "payload": fact.payload} for fact in commit.settled_progress
        ],
        "keep_log_tail": commit.keep_log_tail,
        "capture_crash": commit.request_crash_diagnostic,
        "stranded": commit.stranded,
    }
