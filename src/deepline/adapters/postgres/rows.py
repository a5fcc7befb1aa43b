"""What the store's functions take and answer, as values of the domain (C12, C20)."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeVar

from deepline.core.model.attempt import Attempt, AttemptStatus
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.claim import (
    AlreadyTerminal,
    Claim,
    CreatedPending,
    Exhausted,
    Fresh,
    LaunchMissing,
    Misplaced,
    Missing,
    Prepared,
    Wake,
)
from deepline.core.model.heartbeat import HeartbeatIdentity, Liveness
from deepline.core.model.identity import AttemptKey, AttemptRef, Lane, LeaseToken, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.launch import Launch
from deepline.core.model.result import Failed, RunnerTerminal, Suspended
from deepline.core.model.run import RunStatus
from deepline.ports.errors import MalformedDocument
from deepline.ports.wire import (
    checkpoint_from_json,
    launch_from_json,
    result_from_json,
    silence_watch_from_json,
    suspension_from_json,
    terminal_from_json,
)

Document: TypeAlias = Mapping[str, Any]
T = TypeVar("T")


def key_fields(key: AttemptKey) -> dict[str, Json]:
    """An attempt's name in a request."""
    return {"run_id": key.run_id, "attempt": key.attempt}


def fence_fields(ref: AttemptRef) -> dict[str, Json]:
    """The fence in a request."""
    return {
        "run_id": ref.run_id,
        "attempt": ref.attempt,
        "lease_token": ref.lease_token.value,
    }


def claim_fields(claim: Claim) -> dict[str, Json]:
    """The claim in a request."""
    return {
        "run_id": claim.run_id,
        "lane": claim.lane,
        "engine_run_id": claim.engine_run_id,
        "owner": claim.owner,
    }


def work_fields(ref: AttemptRef, claim: Claim) -> dict[str, Json]:
    """Fence and claim in one request. The claim of another run holds nothing here."""
    fields = claim_fields(claim) | fence_fields(ref)
    if claim.run_id != ref.run_id:
        fields["owner"] = None
    return fields


def instant(text: str) -> datetime:
    """An instant as the store's functions write it."""
    return datetime.fromisoformat(text)


def optional(parse: Callable[[Any], T], value: Any) -> T | None:
    """Parse unless it is null."""
    return None if value is None else parse(value)


def claim_from_row(row: Document) -> Claim:
    """A claim as answered."""
    return Claim(
        run_id=RunId(row["run_id"]),
        lane=Lane(row["lane"]),
        task_id=row["task_id"],
        engine_run_id=row["engine_run_id"],
        owner=row["owner"],
        engine_attempt=row["engine_attempt"],
        max_engine_attempts=row["max_engine_attempts"],
        claimed_at=instant(row["claimed_at"]),
    )


def prepared_from_row(row: Document, created_projection_delay: timedelta) -> Prepared:
    """What a claim's preparation found. A launch that cannot be read counts as missing."""
    claim, kind = claim_from_row(row["claim"]), row["kind"]
    if kind == "missing":
        return Missing(claim=claim)
    launch = _launch(row["launch"])
    if launch is None:
        return LaunchMissing(claim=claim)
    attempt = optional(attempt_from_row, row["attempt"])
    if kind == "terminal":
        return AlreadyTerminal(claim=claim, launch=launch, status=RunStatus(row["status"]))
    if kind == "exhausted":
        return Exhausted(claim=claim, launch=launch, attempt=attempt)
    if kind == "created_pending":
        return CreatedPending(claim=claim, launch=launch, retry_after=created_projection_delay)
    if kind == "misplaced":
        return Misplaced(claim=claim, launch=launch)
    assert attempt is not None
    if kind == "wake":
        return Wake(claim=claim, launch=launch, attempt=attempt, adopted=row["adopted"])
    assert kind in {"fresh", "prepared_before"}, kind
    return Fresh(claim=claim, launch=launch, attempt=attempt)


def attempt_from_row(row: Document) -> Attempt:
    """An attempt as it stands."""
    suspension = _readable(suspension_from_json, row["suspension"])
    pending = optional(_pending, row["pending"])
    return Attempt(
        ref=AttemptRef(RunId(row["run_id"]), row["attempt"], LeaseToken(row["lease_token"])),
        status=AttemptStatus(row["status"]),
        engine_attempt=row["engine_attempt"],
        liveness=liveness_from_row(row),
        created_at=instant(row["created_at"]),
        suspension=suspension,
        suspension_malformed=suspension is None and row["suspension"] is not None,
        checkpoint=_readable(checkpoint_from_json, row["checkpoint"]) or Checkpoint(),
        silence=silence_watch_from_json(row["silence"]),
        runner_terminal=pending
        if isinstance(pending, Failed)
        else optional(stored_terminal, row["runner_terminal"]),
        pending=pending if isinstance(pending, Suspended) else None,
        outage_started_at=optional(instant, row["outage_started_at"]),
    )


def liveness_from_row(row: Document) -> Liveness:
    """The heart of an attempt."""
    return Liveness(
        HeartbeatIdentity(row["heartbeat_identity"]),
        optional(instant, row["heartbeat_at"]),
        row["status"],
    )


def stored_terminal(document: object) -> RunnerTerminal:
    """A stored terminal. One that cannot be read still ends its run, as failed and not never."""
    try:
        return terminal_from_json(document)
    except MalformedDocument as problem:
        return Failed(error=f"RUNTIME_TERMINAL_UNREADABLE: the stored terminal: {problem}")


def _pending(document: object) -> Suspended | Failed:
    """A suspension handed in. One that cannot be read ends its run as a terminal would."""
    try:
        result = result_from_json(document)
    except MalformedDocument as problem:
        return Failed(error=f"RUNTIME_SUSPENSION_UNREADABLE: the stored suspension: {problem}")
    if isinstance(result, Suspended):
        return result
    return Failed(error="RUNTIME_SUSPENSION_UNREADABLE: what is stored is no suspension")


def _launch(document: object) -> Launch | None:
    return None if document is None else _readable(launch_from_json, document)


def _readable(parse: Callable[[Any], T], document: object) -> T | None:
    if document is None:
        return None
    try:
        return parse(document)
    except MalformedDocument:
        return None
