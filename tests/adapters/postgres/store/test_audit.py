"""The audit finds nothing in a sound database, and every damage that it is for (I01–I31)."""

import json

import pytest

from deepline.adapters.postgres.audit import audit
from deepline.adapters.postgres.audit_rules import RULES, UNSEEN
from deepline.core.model.identity import RunId
from deepline.core.model.ledger import SettledProgress
from deepline.core.model.result import Completed
from tests.support.store import FAILURE, WHY, StoreBench

pytestmark = pytest.mark.postgres


def _lost(beat: str | None, stage: str) -> str:
    """What stores a verdict that was judged by this heartbeat and this look at the sandbox."""
    evidence = {"lastHeartbeatAt": beat, "inspectionStage": stage}
    terminal = {
        "status": "failed",
        "error": "RUNTIME_RUNNER_LOST: gone",
        "stats": {"runnerLiveness": evidence},
    }
    return f"""
        update deepline.attempts
           set runner_terminal = '{json.dumps(terminal)}', runner_terminal_at = now()
         where run_id = 'waiting'"""


DAMAGES = {
    "launch_kept": "delete from deepline.launches where run_id = 'waiting'",
    "terminal_agrees": """
        update deepline.runs set terminal = '{"status": "failed"}' where run_id = 'completed'""",
    "end_explained": "update deepline.runs set why = null where run_id = 'cancelled'",
    "attempts_in_order": "delete from deepline.attempts where run_id = 'running'",
    "only_the_newest_lives": """
        update deepline.attempts set status = 'running' where run_id = 'retried' and attempt = 1""",
    "attempt_agrees": "update deepline.runs set status = 'running' where run_id = 'waiting'",
    "play_started_once": """
        update deepline.attempts set suspension = '{"kind": "detached_runner"}'
         where run_id = 'retried' and attempt = 1""",
    "launch_agrees": """
        update deepline.launches set launch = launch || '{"playName": "another"}'
         where run_id = 'waiting'""",
    "lane_of_its_launch": """
        update deepline.launches set launch = launch || '{"absurdReleaseId": "another"}'
         where run_id = 'waiting'""",
    "no_scheduled_child": """
        update deepline.launches
           set launch = launch || '{"playCallGovernance": {"parentRunId": "completed"}}'
         where run_id = 'waiting'""",
    "cancelled_before_it_began": """
        update deepline.outbox
           set payload = payload || '{"reason": "SCHEDULER_ATTEMPT_PREPARATION_FAILED: x"}'
         where event_id = 'run-terminal:cancelled'""",
    "terminal_dated": """
        update deepline.attempts set runner_terminal_at = now() where run_id = 'running'""",
    "created_known_first": """
        update deepline.runs set created_projected_at = null where run_id = 'running'""",
    "outage_unbroken": """
        update deepline.attempts
           set retired_reason = 'token_outage', outage_started_at = now() - attempt * interval '1 s'
         where run_id = 'retried'""",
    "verdict_on_the_last_beat": _lost("2020-02-02T00:00:00.000000Z", "sandbox_not_found"),
    "verdict_with_proof": _lost(None, "command_running"),
    "silence_of_its_own": """
        update deepline.attempts
           set checkpoint = '{"state": {}, "detachedRunnerSilenceConfirmation": {
                   "boundaryId": "another", "runnerAttempt": 1, "heartbeatIdentity": null}}'
         where run_id = 'waiting'""",
    "limit_kept": """
        update deepline.attempts
           set suspension = suspension || '{"ceilingMs": 1}', created_at = '2020-02-02'
         where run_id = 'waiting';
        update deepline.runs set created_projected_at = '2020-02-01' where run_id = 'waiting'""",
    "runner_believed": """
        update deepline.attempts
           set runner_terminal = '{"status": "completed", "output": 2}', runner_terminal_at = now()
         where run_id = 'completed'""",
    "facts_without_gaps": """
        delete from deepline.outbox where run_id = 'failed' and kind = 'run.progress_settled'""",
    "created_fact_first": """
        update deepline.outbox set kind = 'run.other' where run_id = 'waiting' and seq = 1""",
    "one_terminal_fact": """
        update deepline.outbox set kind = 'run.other' where event_id = 'run-terminal:completed'""",
    "terminal_fact_last": """
        insert into deepline.outbox (run_id, seq, event_id, kind, payload)
        values ('completed', 3, 'late', 'run.progress_settled', '{}');
        update deepline.runs set next_seq = 4 where run_id = 'completed'""",
    "terminal_fact_agrees": """
        update deepline.outbox set kind = 'run.failed' where event_id = 'run-terminal:completed'""",
    "facts_in_order": """
        update deepline.outbox set delivered_at = now() where event_id = 'run-terminal:failed'""",
    "ledger_agrees": """
        insert into deepline.run_events (run_id, cursor, event_id, kind, payload)
        values ('completed', 9, 'another', 'run.failed', '{}')""",
    "signals_taken_once": """
        insert into deepline.signals (
            run_id, signal_id, event_key, payload, claimed_boundary_id, claimed_at)
        values ('waiting', 'one', 'go', '{}', 'here', now()),
               ('waiting', 'two', 'go', '{}', 'here', now())""",
    "receipts_kept": """
        insert into deepline.receipts (run_id, receipt_key, org_id, attempt, state)
        values ('running', 'card', 'org', 1, 'released')""",
    "live_sandboxes_kept": """
        insert into deepline.cleanup_jobs (
            run_id, attempt, org_id, provider, operation_key, sandbox_id, done_at)
        select run_id, attempt, 'org', 'local', 'operation', suspension ->> 'sandboxId', now()
          from deepline.attempts where run_id = 'waiting'""",
    "engine_attempts_spent": """
        update absurd.r_runs set failure_reason = null where state = 'failed'""",
    "rows_in_their_sheet": """
        insert into deepline.sheets (run_id, table_namespace, total) values ('completed', 's', 2);
        insert into deepline.sheet_rows (run_id, table_namespace, row_index, attempt)
        values ('completed', 's', 2, 1)""",
    "written_by_an_attempt": """
        insert into deepline.steps (run_id, step, attempt) values ('completed', 'x', 7)""",
    "cleanup_owed": "delete from deepline.cleanup_jobs where run_id = 'failed'",
    "open_run_has_work": """
        update absurd.r_runs set state = 'failed' where task_id = (
            select task_id from deepline.runs where run_id = 'waiting')""",
    "ended_run_has_none": """
        update absurd.t_runs set state = 'sleeping' where task_id = (
            select task_id from deepline.runs where run_id = 'completed')""",
    "one_task_a_run": "select absurd.spawn_task('runs', 'play-run', '{\"run_id\": \"queued\"}')",
}
"""By rule, what breaks that rule and no other."""

UNDONE = {
    "all_ended": "update deepline.runs set status = 'queued', terminal_at = null",
    "one_deliverer": "insert into deepline.outbox_leases values ('run', 'me', now())",
    "facts_delivered": "update deepline.outbox set delivered_at = null where seq = 2",
    "receipts_released": """
        insert into deepline.receipts (run_id, receipt_key, org_id, attempt, state)
        values ('run', 'card', 'org', 1, 'leased')""",
    "sandboxes_gone": "update deepline.sandbox_operations set state = 'deleting'",
    "cleanups_done": "update deepline.cleanup_jobs set done_at = null",
    "usage_closed": "update deepline.sandbox_usage set ended_at = null",
}
"""By rule, the duty that is not done."""


async def busy(bench: StoreBench) -> None:
    """Have runs in every state that a run can be in."""
    await bench.parked("waiting")
    await bench.started("running")
    retried = await bench.started("retried")
    await bench.lose_claim(retried)
    await bench.claim_fresh()
    await bench.commit(await bench.started("completed"), Completed(output=1))
    failing = await bench.started("failed")
    await bench.bind(failing, "operation-failed")
    progress = SettledProgress(event_id="progress", payload={"rows": 2})
    await bench.commit(failing, FAILURE, settled_progress=[progress])
    await bench.started("cancelled")
    await bench.store.terminals.cancel(RunId("cancelled"), by="me", reason="enough", why=WHY)
    await bench.submit("queued")
    # It slept when its worker was lost, and a run that goes on from another has what that one did.
    await bench.rows("""
        update deepline.attempts set suspension = '{"kind": "sleep"}'
         where run_id = 'retried' and attempt = 1""")
    await bench.rows("update deepline.runs set retry_of = 'failed' where run_id = 'queued'")
    await bench.rows("insert into deepline.steps (run_id, step, attempt) values ('queued', 'x', 0)")


async def settled(bench: StoreBench) -> None:
    """Have one run that ended, with every duty done."""
    work = await bench.started("run")
    await bench.bind(work)
    await bench.commit(work)
    await bench.rows("update deepline.outbox set delivered_at = clock_timestamp() where seq = 2")
    await bench.rows("update deepline.cleanup_jobs set done_at = now()")
    await bench.rows("update deepline.sandbox_operations set state = 'gone', gone_at = now()")
    await bench.rows("update deepline.sandbox_usage set ended_at = now()")


async def found(bench: StoreBench, *, settled: bool = False) -> set[str]:
    """The names of the rules that are broken."""
    return {violation.rule for violation in await audit(bench.dsn, settled=settled)}


def test_every_rule_is_tried() -> None:
    """No rule is there that no test breaks."""
    assert {rule.name for rule in RULES if not rule.settled} == set(DAMAGES)
    assert {rule.name for rule in RULES if rule.settled} == set(UNDONE)


def test_every_invariant_is_looked_for() -> None:
    """Of those that runs and sandboxes keep, each is in a rule or cannot be seen any more."""
    seen = {name for rule in RULES for name in rule.holds}
    asked = {f"I{number:02}" for number in (*range(1, 32), 50, 51)}

    assert seen | set(UNSEEN) == asked
    assert not seen & set(UNSEEN)


@pytest.mark.parametrize("rule", DAMAGES)
async def test_a_damage_is_found_by_its_rule(rule: str, bench: StoreBench) -> None:
    """Runs in every state are sound, and one damage breaks one rule."""
    await busy(bench)
    assert not await audit(bench.dsn)

    for statement in DAMAGES[rule].split(";"):
        await bench.rows(statement)

    assert await found(bench) == {rule}


@pytest.mark.parametrize("rule", UNDONE)
async def test_a_duty_that_is_not_done_is_found_when_all_should_be(
    rule: str, bench: StoreBench
) -> None:
    """It breaks its rule for a settled database, and is nothing unusual in a busy one."""
    await settled(bench)
    assert not await audit(bench.dsn, settled=True)

    await bench.rows(UNDONE[rule])

    assert rule in await found(bench, settled=True)


async def test_a_violation_names_its_run(bench: StoreBench) -> None:
    """An operator sees which run it is and what is wrong with it."""
    await bench.submit("queued")
    await bench.rows("delete from deepline.launches")

    [violation] = await audit(bench.dsn)

    assert str(violation) == "launch_kept (I24): run queued: it has no launch row"
