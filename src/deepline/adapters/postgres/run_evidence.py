"""Rows about a run, as the values that explain it (DESIGN: outcome explained)."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from deepline.adapters.postgres.rows import Document, instant, optional
from deepline.core.model.evidence import (
    AttemptRecord,
    CleanupRecord,
    DecisionRecord,
    EngineRecord,
    FactRecord,
    RunEvidence,
)
from deepline.core.model.identity import Lane, OrgId, ReleaseId, RunId
from deepline.core.model.run import Run, RunStatus
from deepline.core.model.why import Why
from deepline.ports.wire import why_from_json

T = TypeVar("T")


def run_from_row(row: Any) -> Run:
    """A run as `run_json` tells it."""
    return Run(
        run_id=RunId(row["run_id"]),
        org_id=OrgId(row["org_id"]),
        play_name=row["play_name"],
        status=RunStatus(row["status"]),
        lane=Lane(row["lane"]),
        release_id=optional(ReleaseId, row["release_id"]),
        task_id=row["task_id"],
        attempt=row["attempt"],
        created_at=instant(row["created_at"]),
        created_projected_at=optional(instant, row["created_projected_at"]),
        cancel_requested_at=optional(instant, row["cancel_requested_at"]),
        terminal_at=optional(instant, row["terminal_at"]),
        why=optional(why_from_json, row["why"]),
        retry_of=optional(RunId, row["retry_of"]),
        retried_as=optional(RunId, row["retried_as"]),
        submitted_by=row["submitted_by"],
    )


def evidence_from_row(row: Any) -> RunEvidence:
    """Everything about a run as `evidence` tells it."""
    return RunEvidence(
        run=run_from_row(row["run"]),
        read_at=instant(row["read_at"]),
        attempts=_each(_attempt, row["attempts"]),
        decisions=_each(_decision, row["decisions"]),
        engine=optional(_engine, row["engine"]),
        facts=_each(_fact, row["facts"]),
        cleanup=_each(_cleanup, row["cleanup"]),
        lane_last_claim_at=optional(instant, row["lane_last_claim_at"]),
        queue_position=row["queue_position"],
    )


def _each(parse: Callable[[Document], T], rows: Sequence[Document] | None) -> Sequence[T]:
    return tuple(parse(row) for row in rows or ())


def _attempt(row: Document) -> AttemptRecord:
    return AttemptRecord(
        attempt=row["attempt"],
        status=row["status"],
        worker=row["worker"],
        engine_attempt=row["engine_attempt"],
        created_at=instant(row["created_at"]),
        updated_at=instant(row["updated_at"]),
        heartbeat_at=optional(instant, row["heartbeat_at"]),
        heartbeats=row["heartbeats"],
        sandbox_provider=row["sandbox_provider"],
        sandbox_id=row["sandbox_id"],
        runner_terminal_status=row["runner_terminal_status"],
        runner_terminal_at=optional(instant, row["runner_terminal_at"]),
        ended_reason=row["ended_reason"],
    )


def _decision(row: Document) -> DecisionRecord:
    return DecisionRecord(
        at=instant(row["at"]), attempt=row["attempt"], why=Why(row["rule"], row["evidence"])
    )


def _engine(row: Document) -> EngineRecord:
    return EngineRecord(
        state=row["state"],
        attempt=row["attempt"],
        due_at=optional(instant, row["due_at"]),
        claimed_by=row["claimed_by"],
        claim_expires_at=optional(instant, row["claim_expires_at"]),
    )


def _fact(row: Document) -> FactRecord:
    return FactRecord(
        seq=row["seq"],
        event_id=row["event_id"],
        kind=row["kind"],
        due_at=instant(row["due_at"]),
        attempts=row["attempts"],
        delivered_at=optional(instant, row["delivered_at"]),
        dead_at=optional(instant, row["dead_at"]),
        last_error=row["last_error"],
    )


def _cleanup(row: Document) -> CleanupRecord:
    return CleanupRecord(
        attempt=row["attempt"],
        provider=row["provider"],
        sandbox_id=row["sandbox_id"],
        sandbox_name=row["sandbox_name"],
        cleanup_attempt=row["cleanup_attempt"],
        failure_count=row["failure_count"],
        due_at=instant(row["due_at"]),
        accepted_at=optional(instant, row["accepted_at"]),
        done_at=optional(instant, row["done_at"]),
    )
