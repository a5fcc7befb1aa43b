"""What plays keep and sandboxes that are owed a deletion (I12–I14, I23, I31, I50)."""

from collections.abc import Sequence

from deepline.adapters.postgres.audit_rules.rule import Rule

ROWS: Sequence[Rule] = (
    Rule(
        name="rows_in_their_sheet",
        holds=("I31",),
        statement="""
            select w.run_id, format('row %s of %s is outside of its sheet of %s rows', w.row_index,
                                    w.table_namespace, coalesce(s.total::text, 'unknown'))
              from {schema}.sheet_rows w
              left join {schema}.sheets s
                on s.run_id = w.run_id and s.table_namespace = w.table_namespace
             where s.total is null or w.row_index not between 0 and s.total - 1""",
    ),
    Rule(
        name="written_by_an_attempt",
        holds=("I31",),
        statement="""
            select w.run_id, format('attempt %s wrote %s and does not exist', w.attempt, w.what)
              from (select run_id, attempt, 'row ' || row_index as what from {schema}.sheet_rows
                    union all
                    select run_id, attempt, 'step ' || step from {schema}.steps
                    union all
                    select run_id, attempt, 'receipt ' || receipt_key from {schema}.receipts) w
              left join {schema}.attempts a on a.run_id = w.run_id and a.attempt = w.attempt
              left join {schema}.runs r on r.run_id = w.run_id
             where a.run_id is null and (w.attempt <> 0 or r.retry_of is null)""",
    ),
    Rule(
        name="receipts_released",
        settled=True,
        statement="""
            select p.run_id, format('receipt %s is still leased', p.receipt_key)
              from {schema}.receipts p where p.state = 'leased'""",
    ),
    Rule(
        name="signals_taken_once",
        holds=("I23",),
        statement="""
            select s.run_id, format('%s signals were taken at %s', count(*), s.claimed_boundary_id)
              from {schema}.signals s
             where s.claimed_at is not null
             group by s.run_id, s.claimed_boundary_id
            having count(*) > 1 or s.claimed_boundary_id is null""",
    ),
    Rule(
        name="receipts_kept",
        holds=("I31",),
        statement="""
            select p.run_id, format('receipt %s of attempt %s was let go of while it lives',
                                    p.receipt_key, p.attempt)
              from {schema}.receipts p
              join {schema}.attempts a on a.run_id = p.run_id and a.attempt = p.attempt
             where p.state = 'released' and a.status in ('running', 'waiting')""",
    ),
)


SANDBOXES: Sequence[Rule] = (
    Rule(
        name="cleanup_owed",
        holds=(
            "I13",
            "I50",
        ),
        statement="""
            select o.run_id, format('operation %s is %s and nobody has to clean it up',
                                    o.operation_key, o.state)
              from {schema}.sandbox_operations o
              left join {schema}.runs r on r.run_id = o.run_id
              left join {schema}.attempts a on a.run_id = o.run_id and a.attempt = o.attempt
             where o.state in ('reserved', 'bound', 'deleting')
               and (r.run_id is null or r.terminal_at is not null
                    or coalesce(a.status, 'retired') not in ('running', 'waiting'))
               and not exists (
                   select from {schema}.cleanup_jobs j
                    where j.operation_key = o.operation_key and j.done_at is null)""",
    ),
    Rule(
        name="sandboxes_gone",
        settled=True,
        statement="""
            select o.run_id, format('operation %s is still %s', o.operation_key, o.state)
              from {schema}.sandbox_operations o
             where o.state in ('reserved', 'bound', 'deleting')""",
    ),
    Rule(
        name="cleanups_done",
        settled=True,
        statement="""
            select j.run_id, format('cleanup %s is not done after %s tries', j.job_id,
                                    j.cleanup_attempt)
              from {schema}.cleanup_jobs j where j.done_at is null""",
    ),
    Rule(
        name="usage_closed",
        settled=True,
        statement="""
            select u.run_id, format('the time of sandbox %s is still running', u.sandbox_id)
              from {schema}.sandbox_usage u where u.ended_at is null""",
    ),
    Rule(
        name="live_sandboxes_kept",
        holds=("I12", "I14"),
        statement="""
            select j.run_id, format('the deletion of sandbox %s was begun while attempt %s lives in'
                                    ' it', j.sandbox_id, a.attempt)
              from {schema}.cleanup_jobs j
              join {schema}.runs r on r.run_id = j.run_id and r.terminal_at is null
              join {schema}.attempts a on a.run_id = j.run_id and a.attempt = j.attempt
             where a.status in ('running', 'waiting') and a.runner_terminal is null
               and a.suspension ->> 'kind' = 'detached_runner' and a.pending is null
               and a.suspension ->> 'sandboxId' = j.sandbox_id
               and (j.done_at is not null or exists (
                    select from {schema}.cleanup_events e
                     where e.job_id = j.job_id and e.kind = 'provider_delete_started'))""",
    ),
)
