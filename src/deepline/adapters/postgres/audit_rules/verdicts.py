"""Nobody is judged lost without proof, or kept past the limit (I05–I10)."""

from collections.abc import Sequence

from deepline.adapters.postgres.audit_rules.rule import Rule

VERDICTS: Sequence[Rule] = (
    Rule(
        name="verdict_on_the_last_beat",
        holds=("I05",),
        statement="""
            select a.run_id, format('attempt %s was judged lost by its heartbeat of %s, and another'
                                    ' came at %s', a.attempt, coalesce(v.beat, 'never'),
                                    coalesce(a.heartbeat_at::text, 'never'))
              from {schema}.attempts a
             cross join lateral (
                 select a.runner_terminal #>> '{stats,runnerLiveness,lastHeartbeatAt}' as beat) v
             where starts_with(a.runner_terminal ->> 'error', 'RUNTIME_RUNNER_LOST')
               and date_trunc('milliseconds', v.beat::timestamptz)
                   is distinct from date_trunc('milliseconds', a.heartbeat_at)""",
    ),
    Rule(
        name="verdict_with_proof",
        holds=("I06", "I07", "I08"),
        statement="""
            select a.run_id, format('attempt %s was judged lost though its sandbox was found %s',
                                    a.attempt, coalesce(v.stage, 'nowhere'))
              from {schema}.attempts a
             cross join lateral (
                 select a.runner_terminal #>> '{stats,runnerLiveness,inspectionStage}' as stage) v
             where starts_with(a.runner_terminal ->> 'error', 'RUNTIME_RUNNER_LOST')
               and coalesce(v.stage, '') <> all ({proofs})
               -- Nobody could look; or the look failed with the one error that is certain (A14).
               and coalesce(v.stage, '') not in ('not_configured', 'inspection_failed')""",
    ),
    Rule(
        name="silence_of_its_own",
        holds=("I10",),
        statement="""
            select a.run_id, format('attempt %s keeps a proof of silence of attempt %s at %s',
                                    a.attempt, p.proof ->> 'runnerAttempt',
                                    p.proof ->> 'boundaryId')
              from {schema}.attempts a
             cross join lateral (
                 select a.checkpoint -> 'detachedRunnerSilenceConfirmation' as proof) p
             where p.proof is not null and jsonb_typeof(p.proof) = 'object'
               and (p.proof ->> 'runnerAttempt' is distinct from a.attempt::text
                    or p.proof ->> 'boundaryId' is distinct from a.suspension ->> 'boundaryId')""",
    ),
    Rule(
        name="limit_kept",
        holds=("I09",),
        statement="""
            select a.run_id, format('attempt %s is %s, an hour past its limit', a.attempt, a.status)
              from {schema}.attempts a join {schema}.runs r on r.run_id = a.run_id
             where r.terminal_at is null and a.status in ('running', 'waiting')
               and a.suspension ->> 'kind' = 'detached_runner'
               and jsonb_typeof(a.suspension -> 'startedAtMs') = 'number'
               and jsonb_typeof(a.suspension -> 'ceilingMs') = 'number'
               and greatest((a.suspension ->> 'startedAtMs')::numeric,
                            extract(epoch from a.created_at) * 1000)
                   + (a.suspension ->> 'ceilingMs')::numeric + 3600000
                   < extract(epoch from clock_timestamp()) * 1000""",
    ),
)
