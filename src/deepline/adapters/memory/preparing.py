"""What a claim finds and makes: one attempt prepared for one claimed engine run (C12, C13, C14)."""

from collections.abc import Sequence
from datetime import datetime

import attrs

from deepline.adapters.memory.obligations import oblige_attempt
from deepline.adapters.memory.rows import AttemptRow, RunRow
from deepline.adapters.memory.world import World
from deepline.core.model.attempt import Attempt, AttemptStatus, RetireReason
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
from deepline.core.model.identity import AttemptKey, AttemptRef, LeaseToken
from deepline.core.model.launch import Launch
from deepline.core.model.run import RunStatus
from deepline.core.model.why import Why
from deepline.core.parking import base
from deepline.core.token_outage import carried_outage_start


@attrs.frozen(kw_only=True)
class _Preparation:
    world: World
    claim: Claim
    run: RunRow
    launch: Launch
    worker: str
    placement_keys: Sequence[str]


def prepare(world: World, claim: Claim, *, placement_keys: Sequence[str], worker: str) -> Prepared:
    """Prepare the run of a claim that is held; part of the caller's step."""
    run = world.runs.get(claim.run_id)
    if run is None:
        return Missing(claim=claim)
    stored = world.launches.get(claim.run_id)
    if stored is None:
        return LaunchMissing(claim=claim)
    if run.ended:
        return AlreadyTerminal(claim=claim, launch=stored.launch, status=run.status)
    preparation = _Preparation(
        world=world,
        claim=claim,
        run=run,
        launch=stored.launch,
        worker=worker,
        placement_keys=placement_keys,
    )
    return _prepare_open_run(preparation, world.newest_attempt(run))


def _prepare_open_run(preparation: _Preparation, newest: AttemptRow | None) -> Prepared:
    claim, launch = preparation.claim, preparation.launch
    if claim.is_finaliser:
        found = None if newest is None else attempt_value(newest)
        return Exhausted(claim=claim, launch=launch, attempt=found)
    if newest is not None and newest.live:
        return _continue(preparation, newest)
    return _begin(preparation)


def _continue(preparation: _Preparation, newest: AttemptRow) -> Prepared:
    """A live attempt exists: wake it, give it back to its own claim, or take it from a lost one."""
    claim, launch = preparation.claim, preparation.launch
    if newest.status is AttemptStatus.WAITING:
        found = attempt_value(newest)
        return Wake(claim=claim, launch=launch, attempt=found, adopted=newest.adopted)
    if newest.may_have_started:
        _take_over(preparation, newest)
        return Wake(claim=claim, launch=launch, attempt=attempt_value(newest), adopted=True)
    if newest.claim_owner == claim.owner:
        return Fresh(claim=claim, launch=launch, attempt=attempt_value(newest))
    why = Why("claim.lease_lost", {"lostWorker": newest.worker})
    retire_attempt(preparation.world, newest, RetireReason.LEASE_LOST, why)
    return _begin(preparation)


def _take_over(preparation: _Preparation, newest: AttemptRow) -> None:
    """The lost claim's worker may have started the play: wait for it under a fresh lease token."""
    newest.lease_token = LeaseToken(preparation.world.new_secret())
    newest.status, newest.adopted = AttemptStatus.WAITING, True
    newest.updated_at = preparation.world.now()
    why = Why("claim.taken_over", {"lostWorker": newest.worker})
    preparation.world.decide(newest.run_id, newest.attempt, why)
    preparation.run.status = RunStatus.WAITING


def _begin(preparation: _Preparation) -> Prepared:
    claim, launch, run = preparation.claim, preparation.launch, preparation.run
    if run.created_projected_at is None:
        retry_after = preparation.world.limits.created_projection_delay
        return CreatedPending(claim=claim, launch=launch, retry_after=retry_after)
    if run.placement_key not in preparation.placement_keys:
        return Misplaced(claim=claim, launch=launch)
    return Fresh(claim=claim, launch=launch, attempt=attempt_value(_add_attempt(preparation)))


def _add_attempt(preparation: _Preparation) -> AttemptRow:
    world, run, claim = preparation.world, preparation.run, preparation.claim
    now, before = world.now(), world.newest_attempt(run)
    run.attempt += 1
    run.status = RunStatus.RUNNING
    row = AttemptRow(
        run_id=run.run_id,
        attempt=run.attempt,
        lease_token=LeaseToken(world.new_secret()),
        status=AttemptStatus.RUNNING,
        engine_attempt=claim.engine_attempt,
        worker=preparation.worker,
        claim_owner=claim.owner,
        created_at=now,
        updated_at=now,
        outage_started_at=run.outage_started_at,
        checkpoint=Checkpoint() if before is None else base(before.checkpoint),
    )
    world.attempts[AttemptKey(run.run_id, run.attempt)] = row
    return row


def retire_attempt(
    world: World,
    attempt: AttemptRow,
    reason: RetireReason,
    why: Why,
    *,
    outage_started_at: datetime | None = None,
) -> None:
    """End the attempt without a terminal and queue its run again, with its obligation (I13).

    Only an outage hands its start on to the next attempt (Q31).
    """
    run = world.runs[attempt.run_id]
    attempt.status, attempt.retired_reason = AttemptStatus.RETIRED, reason
    attempt.claim_owner, attempt.updated_at = None, world.now()
    run.status = RunStatus.QUEUED
    run.outage_started_at = carried_outage_start(
        outage_started_at, retired_for_outage=reason is RetireReason.TOKEN_OUTAGE
    )
    oblige_attempt(world, attempt)
    world.decide(attempt.run_id, attempt.attempt, why)


def attempt_value(row: AttemptRow) -> Attempt:
    """The attempt as callers see it."""
    return Attempt(
        ref=AttemptRef(row.run_id, row.attempt, row.lease_token),
        status=row.status,
        engine_attempt=row.engine_attempt,
        liveness=row.liveness,
        created_at=row.created_at,
        suspension=row.suspension,
        checkpoint=row.checkpoint,
        silence=row.silence,
        runner_terminal=row.runner_terminal,
        pending=row.pending,
        outage_started_at=row.outage_started_at,
    )
