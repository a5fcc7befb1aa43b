"""Runs and their launches agree (I01, I24–I28, I30)."""

from collections.abc import Sequence

from deepline.adapters.postgres.audit_rules.rule import Rule

RUNS: Sequence[Rule] = (
    Rule(
        name="launch_kept",
        holds=("I24",),
        statement="""
            select r.run_id, 'it has no launch row'
              from {schema}.runs r left join {schema}.launches l on l.run_id = r.run_id
             where l.run_id is null""",
    ),
    Rule(
        name="terminal_agrees",
        holds=(
            "I01",
            "I30",
        ),
        statement="""
            select r.run_id, format('it is %s, its terminal says %s', r.status,
                                    coalesce(r.terminal ->> 'status', 'nothing'))
              from {schema}.runs r
             where r.status in ('completed', 'failed')
               and r.terminal ->> 'status' is distinct from r.status""",
    ),
    Rule(
        name="end_explained",
        holds=("I01",),
        statement="""
            select r.run_id, 'it ended without a reason'
              from {schema}.runs r
             where r.terminal_at is not null and r.why ->> 'rule' is null""",
    ),
    Rule(
        name="all_ended",
        settled=True,
        statement="""
            select r.run_id, format('it is still %s', r.status)
              from {schema}.runs r where r.terminal_at is null""",
    ),
    Rule(
        name="launch_agrees",
        holds=("I26",),
        statement="""
            select r.run_id, format('its launch speaks of run %s of %s, play %s',
                                    l.launch ->> 'runId', l.launch ->> 'orgId',
                                    l.launch ->> 'playName')
              from {schema}.runs r join {schema}.launches l on l.run_id = r.run_id
             where (l.launch ->> 'runId', l.launch ->> 'orgId', l.launch ->> 'playName')
                   is distinct from (r.run_id, r.org_id, r.play_name)""",
    ),
    Rule(
        name="lane_of_its_launch",
        holds=("I25",),
        statement="""
            select r.run_id, format('it is of release %s, its launch of %s',
                                    coalesce(r.release_id, 'none'),
                                    coalesce(l.launch ->> 'absurdReleaseId', 'none'))
              from {schema}.runs r join {schema}.launches l on l.run_id = r.run_id
             where l.launch ->> 'absurdReleaseId' is distinct from r.release_id""",
    ),
    Rule(
        name="no_scheduled_child",
        holds=("I27",),
        statement="""
            select l.run_id, 'it was submitted as the scheduled child of a run'
              from {schema}.launches l
             where btrim(coalesce(l.launch #>> '{playCallGovernance,parentRunId}', '')) <> ''""",
    ),
    Rule(
        name="cancelled_before_it_began",
        holds=("I28",),
        statement="""
            select r.run_id, format('a failed preparation cancelled it after %s attempts',
                                    r.attempt)
              from {schema}.runs r
              join {schema}.outbox o on o.run_id = r.run_id and o.kind = 'run.cancelled'
             where r.attempt > 0
               and starts_with(o.payload ->> 'reason', 'SCHEDULER_ATTEMPT_PREPARATION_FAILED')""",
    ),
)
