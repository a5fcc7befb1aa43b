"""Runs, evidence and lanes on Postgres, as people and operators read them (C08, C56)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from deepline.core.model.attempt import RetireReason
from deepline.core.model.evidence import EngineRecord
from deepline.core.model.heartbeat import NoFence
from deepline.core.model.identity import Lane, OrgId, ReleaseId, RunId
from deepline.core.model.result import Completed, Report
from deepline.core.model.run import RunStatus
from deepline.ports.cleanup import JobAgain
from deepline.ports.runs import RunFilter
from tests.support.store import (
    FAILURE,
    LANE,
    OUTPUT,
    SANDBOX,
    WHY,
    StoreBench,
    detached,
    key_of,
)

RUN = RunId("run")
ORG = OrgId("org")
LEASE = timedelta(seconds=60)


async def test_a_queued_run_has_no_result(bench: StoreBench) -> None:
    """A submitted run is there at once, as it was submitted."""
    await bench.submit(release="r1", project_created=False)

    found = await bench.store.runs.read(RUN, ORG)

    assert found is not None
    run = found.run
    assert (run.run_id, run.org_id, run.play_name, run.lane) == ("run", "org", "play", "runs")
    assert (run.status, run.attempt, run.release_id) == (RunStatus.QUEUED, 0, "r1")
    assert run.task_id is not None
    assert run.created_at.tzinfo is UTC
    assert (run.created_projected_at, run.terminal_at, run.why) == (None, None, None)
    assert (found.result, found.log_tail) == (None, ())


async def test_an_ended_run_has_its_result_and_its_reason(bench: StoreBench) -> None:
    """The result is the one that was committed, its log tail beside it, with why it ended so."""
    work = await bench.started()
    result = Completed(output=[1, None], report=Report(logs=("one", "two"), stats={"n": 1}))
    await bench.commit(work, result, keep_log_tail=True)

    found = await bench.store.runs.read(RUN, None)

    assert found is not None
    assert (found.run.status, found.run.attempt) == (RunStatus.COMPLETED, 1)
    assert found.run.why == WHY
    assert isinstance(found.result, Completed)
    assert (found.result.output, found.result.report.stats) == ([1, None], {"n": 1})
    assert found.log_tail == ("one", "two")


async def test_a_cancelled_run_has_no_result(bench: StoreBench) -> None:
    """A cancel is told by status, time and reason alone."""
    await bench.submit()
    await bench.store.terminals.cancel(RUN, by="me", reason="enough", why=WHY)

    found = await bench.store.runs.read(RUN, ORG)

    assert found is not None
    assert (found.run.status, found.result) == (RunStatus.CANCELLED, None)
    assert found.run.cancel_requested_at == found.run.terminal_at is not None


async def test_another_organisations_run_is_none(bench: StoreBench) -> None:
    """Who asks for another's run learns as little as about one that never was."""
    await bench.submit()

    for run_id, org_id in ((RUN, OrgId("other")), (RunId("unknown"), ORG)):
        assert await bench.store.runs.read(run_id, org_id) is None
        assert await bench.store.runs.evidence(run_id, org_id) is None


async def listed(bench: StoreBench, **which: Any) -> list[str]:
    """The ids of the runs that a filter finds."""
    return [run.run_id for run in await bench.store.runs.list(attrs.evolve(RunFilter(), **which))]


async def test_lists_are_newest_first_and_filtered(bench: StoreBench) -> None:
    """A list holds what was asked for and nothing else."""
    await bench.submit("a", org="org-1")
    await bench.submit("b", org="org-2")
    await bench.submit("c", org="org-1")
    await bench.store.terminals.cancel(RunId("a"), by="me", reason="enough", why=WHY)
    await bench.rows("update deepline.runs set play_name = 'other' where run_id = 'c'")

    assert await listed(bench) == ["c", "b", "a"]
    assert await listed(bench, org_id=OrgId("org-1")) == ["c", "a"]
    assert await listed(bench, play_name="other") == ["c"]
    assert await listed(bench, statuses=[RunStatus.CANCELLED, RunStatus.FAILED]) == ["a"]
    assert await listed(bench, org_id=OrgId("org-1"), statuses=[RunStatus.QUEUED]) == ["c"]
    assert await listed(bench, org_id=OrgId("nobody")) == []


async def test_pages_follow_each_other_without_loss(bench: StoreBench) -> None:
    """Going on before the last one seen finds every run once, also those made at one instant."""
    for number in range(7):
        await bench.submit(f"run-{number}")
    await bench.rows("update deepline.runs set created_at = '2026-01-01Z' where run_id < 'run-4'")
    seen: list[str] = []
    before: tuple[datetime, RunId] | None = None
    while page := await bench.store.runs.list(RunFilter(limit=3, before=before)):
        seen.extend(run.run_id for run in page)
        before = (page[-1].created_at, page[-1].run_id)

    assert seen == ["run-6", "run-5", "run-4", "run-3", "run-2", "run-1", "run-0"]


@pytest.mark.parametrize(("limit", "found"), [(-5, 1), (0, 1), (2, 2), (10_000, 3)])
async def test_a_list_has_bounds(bench: StoreBench, limit: int, found: int) -> None:
    """A page holds at least one run and at most its limit, whatever was asked for."""
    for number in range(3):
        await bench.submit(f"run-{number}")

    assert len(await listed(bench, limit=limit)) == found


async def test_evidence_tells_the_life_of_a_run(bench: StoreBench) -> None:
    """Attempts, decisions, facts, cleanup and the engine's side of an ended run are all there."""
    work = await bench.started()
    await bench.store.attempts.retire(
        work.attempt.ref, work.claim, RetireReason.CAPACITY, delay=timedelta(0), why=WHY
    )
    work = await bench.claim_fresh()
    await bench.bind(work)
    await bench.store.liveness.beat(key_of(work.attempt.ref))
    await bench.commit(work, FAILURE)
    [job] = await bench.store.cleanup.claim("cleaner", ["local"], limit=1, lease=LEASE)
    await bench.store.cleanup.record_event(job, "provider_delete_accepted", {})
    await bench.store.cleanup.finish(job, JobAgain(delay=LEASE, failed=True))

    evidence = await bench.store.runs.evidence(RUN, ORG)

    assert evidence is not None
    assert evidence.run.status is RunStatus.FAILED
    assert evidence.read_at >= evidence.run.created_at
    first, second = evidence.attempts
    assert (first.attempt, first.status, first.ended_reason) == (1, "retired", "capacity")
    assert (first.sandbox_id, first.heartbeat_at, first.heartbeats) == (None, None, 0)
    assert (second.attempt, second.status, second.ended_reason) == (2, "failed", "failed")
    assert (second.worker, second.sandbox_provider) == ("worker-1", "local")
    assert (second.sandbox_id, second.heartbeats) == (SANDBOX.sandbox_id, 1)
    assert [(decision.attempt, decision.why) for decision in evidence.decisions] == [
        (1, WHY),
        (2, WHY),
    ]
    created, terminal = evidence.facts
    assert (created.seq, created.kind) == (1, "run.created")
    assert created.delivered_at is not None
    assert (terminal.seq, terminal.kind, terminal.delivered_at) == (2, "run.failed", None)
    [cleanup] = evidence.cleanup
    assert (cleanup.attempt, cleanup.sandbox_id) == (2, SANDBOX.sandbox_id)
    assert (cleanup.cleanup_attempt, cleanup.failure_count) == (1, 1)
    acceptance = await bench.store.cleanup.acceptance(job)
    assert acceptance is not None
    assert (cleanup.accepted_at, cleanup.done_at) == (acceptance.accepted_at, None)
    assert evidence.engine is not None
    assert evidence.engine.state == "completed"
    assert evidence.lane_last_claim_at is not None
    assert evidence.queue_position is None


async def test_evidence_of_a_run_in_hand_shows_its_claim(bench: StoreBench) -> None:
    """Who holds a run and until when is part of the evidence."""
    work = await bench.started()

    evidence = await bench.store.runs.evidence(RUN, ORG)

    assert evidence is not None
    engine = evidence.engine
    assert engine is not None
    assert (engine.state, engine.attempt) == ("running", 1)
    assert engine.claimed_by == work.claim.owner
    assert engine.claim_expires_at is not None
    [attempt] = evidence.attempts
    assert (attempt.status, attempt.ended_reason) == ("running", None)


async def test_evidence_of_a_queued_run_tells_its_place(bench: StoreBench) -> None:
    """A run held back has no due time and stands behind its own organisation's runs alone."""
    for run_id, org in (("a", "org"), ("b", "other"), ("run", "org"), ("c", "org")):
        await bench.submit(run_id, org=org)

    evidence = await bench.store.runs.evidence(RUN, ORG)

    assert evidence is not None
    assert evidence.queue_position == 2
    assert evidence.engine == EngineRecord(
        state="pending", attempt=1, due_at=None, claimed_by=None, claim_expires_at=None
    )


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param("delete from absurd.t_runs", id="task-missing"),
        pytest.param("drop table absurd.t_runs", id="queue-missing"),
        pytest.param("update deepline.runs set task_id = null", id="no-task-id"),
    ],
)
async def test_evidence_survives_the_engine(bench: StoreBench, damage: str) -> None:
    """What the engine forgot, or its whole queue dropped, is told as none."""
    await bench.commit(await bench.started(), OUTPUT)
    await bench.rows(damage)

    evidence = await bench.store.runs.evidence(RUN, ORG)

    assert evidence is not None
    assert evidence.engine is None
    assert len(evidence.attempts) == 1


async def test_evidence_is_bounded_to_the_newest(bench: StoreBench) -> None:
    """Each list holds its newest 500, oldest first."""
    await bench.submit()
    await bench.rows(
        "insert into deepline.decisions (run_id, attempt, rule, evidence)"
        " select 'run', 0, 'rule-' || n, '{}' from generate_series(1, 600) n"
    )
    await bench.rows(
        "insert into deepline.outbox (run_id, seq, event_id, kind, payload)"
        " select 'run', 1 + n, 'fact-' || n, 'run.progress_settled', '{}'"
        " from generate_series(1, 600) n"
    )

    evidence = await bench.store.runs.evidence(RUN, ORG)

    assert evidence is not None
    rules = [decision.why.rule for decision in evidence.decisions]
    assert rules == [f"rule-{number}" for number in range(101, 601)]
    assert [fact.seq for fact in evidence.facts] == list(range(102, 602))


async def test_an_attempts_last_sandbox_is_shown(bench: StoreBench) -> None:
    """Of the sandboxes that one attempt had, the evidence names the newest."""
    work = await bench.started()
    await bench.bind(work, "operation-1")
    await bench.rows(
        "update deepline.sandbox_operations set state = 'gone', reserved_at = '-infinity'"
    )
    await bench.store.attempts.bind_sandbox(
        work.attempt.ref,
        attrs.evolve(SANDBOX, sandbox_id="newest"),
        detached(1),
        operation_key="operation-2",
    )

    evidence = await bench.store.runs.evidence(RUN, ORG)

    assert evidence is not None
    assert [attempt.sandbox_id for attempt in evidence.attempts] == ["newest"]


async def test_lanes_tell_their_open_work(bench: StoreBench) -> None:
    """Each lane has its release, its last claim, and how many of its tasks are not over."""
    await bench.store.admission.ensure_lane(Lane("runs_of_a_release"), "release-1")
    await bench.commit(await bench.started("done"))
    await bench.parked("parked")
    await bench.submit("held-back")

    base, other = await bench.store.lanes.all()

    assert (base.lane, base.release_id, base.open_tasks) == (LANE, None, 2)
    assert base.last_claim_at is not None
    assert (other.lane, other.release_id) == ("runs_of_a_release", ReleaseId("release-1"))
    assert (other.open_tasks, other.last_claim_at) == (0, None)


async def test_a_lane_whose_queue_is_gone_is_still_told(bench: StoreBench) -> None:
    """A dropped queue leaves its lane in the registry, with nothing open."""
    await bench.rows("select absurd.drop_queue('runs')")

    [lane] = await bench.store.lanes.all()

    assert (lane.lane, lane.open_tasks) == (LANE, 0)


async def test_evidence_of_an_attempt_names_its_terminal(bench: StoreBench) -> None:
    """A pushed terminal that waits to be settled is shown with its time."""
    work = await bench.parked()
    await bench.store.terminals.offer(key_of(work.attempt.ref), FAILURE, NoFence(), WHY)

    evidence = await bench.store.runs.evidence(RUN, ORG)

    assert evidence is not None
    [attempt] = evidence.attempts
    assert attempt.attempt == work.attempt.ref.attempt
    assert attempt.runner_terminal_status == "failed"
    assert attempt.runner_terminal_at is not None
