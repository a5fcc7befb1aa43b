"""Attempts follow each other, and what a runner said is believed (I02–I04, I11, I16, I51)."""

from collections.abc import Sequence

from deepline.adapters.postgres.audit_rules.rule import Rule

ATTEMPTS: Sequence[Rule] = (
    Rule(
        name="attempts_in_order",
        holds=("I11",),
        statement="""
            select r.run_id, format('%s attempts up to number %s, the run is at %s',
                                    count(a.attempt), coalesce(max(a.attempt), 0), r.attempt)
              from {schema}.runs r left join {schema}.attempts a on a.run_id = r.run_id
             group by r.run_id, r.attempt
            having count(a.attempt) <> r.attempt or coalesce(max(a.attempt), 0) <> r.attempt""",
    ),
    Rule(
        name="only_the_newest_lives",
        holds=("I04",),
        statement="""
            select a.run_id, format('attempt %s of %s is %s', a.attempt, r.attempt, a.status)
              from {schema}.attempts a join {schema}.runs r on r.run_id = a.run_id
             where a.attempt < r.attempt and a.status <> 'retired'""",
    ),
    Rule(
        name="attempt_agrees",
        holds=("I04",),
        statement="""
            select r.run_id, format('it is %s, attempt %s is %s', r.status, a.attempt, a.status)
              from {schema}.runs r
              join {schema}.attempts a on a.run_id = r.run_id and a.attempt = r.attempt
             where a.status <> r.status
               and not (a.status = 'retired' and r.status in ('queued', 'cancelled'))""",
    ),
    Rule(
        name="play_started_once",
        holds=("I11",),
        statement="""
            select a.run_id, format('attempt %s had a runner, and attempt %s came after it',
                                    a.attempt, r.attempt)
              from {schema}.attempts a join {schema}.runs r on r.run_id = a.run_id
             where a.attempt < r.attempt
               and (a.suspension ->> 'kind' = 'detached_runner'
                    or a.runner_terminal is not null)""",
    ),
    Rule(
        name="runner_believed",
        holds=("I03",),
        statement="""
            select r.run_id, 'its terminal is not the one that its runner had stored'
              from {schema}.runs r
              join {schema}.attempts a on a.run_id = r.run_id and a.attempt = r.attempt
             where r.status in ('completed', 'failed') and a.runner_terminal is not null
               and r.terminal is distinct from a.runner_terminal - 'logs'""",
    ),
    Rule(
        name="terminal_dated",
        holds=("I02",),
        statement="""
            select a.run_id, format('the runner terminal of attempt %s and its time disagree',
                                    a.attempt)
              from {schema}.attempts a
             where (a.runner_terminal is null) <> (a.runner_terminal_at is null)""",
    ),
    Rule(
        name="created_known_first",
        holds=("I51",),
        statement="""
            select a.run_id, format('attempt %s began before the created fact was acknowledged',
                                    a.attempt)
              from {schema}.attempts a join {schema}.runs r on r.run_id = a.run_id
             where r.created_projected_at is null or a.created_at < r.created_projected_at""",
    ),
    Rule(
        name="outage_unbroken",
        holds=("I16",),
        statement="""
            select n.run_id, format('attempt %s counts its token outage from another time than'
                                    ' attempt %s', n.attempt, a.attempt)
              from {schema}.attempts a
              join {schema}.attempts n on n.run_id = a.run_id and n.attempt = a.attempt + 1
             where a.retired_reason = 'token_outage' and n.retired_reason = 'token_outage'
               and a.outage_started_at is not null and n.outage_started_at is not null
               and n.outage_started_at < a.outage_started_at""",
    ),
)
