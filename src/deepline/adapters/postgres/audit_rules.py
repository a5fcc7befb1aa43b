"""What must be true of the database of record, one query a rule (I01, I03, I11, I13, I20, I21).

Each query answers a row for every place where its rule is broken: the run, and what is wrong with
it in words. `{schema}` stands for our schema, `{terminal_kinds}` for the kinds of terminal facts.
Rules of a lane speak of the lane's own tables in the engine, `{tasks}` and `{engine_runs}`, and of
its name, `{lane}`.

Most rules hold at every moment, since what they speak of changes in one commit. Others speak of
duties that are done a while after a run has ended; they hold once nothing is in hand any more.
"""

from collections.abc import Sequence

import attrs


@attrs.frozen(kw_only=True)
class Rule:
    """One rule; `settled` ones hold once all runs have ended and every duty is done."""

    name: str
    statement: str
    of_lanes: bool = False
    settled: bool = False


RUNS: Sequence[Rule] = (
    Rule(
        name="launch_kept",
        statement="""
            select r.run_id, 'it has no launch row'
              from {schema}.runs r left join {schema}.launches l on l.run_id = r.run_id
             where l.run_id is null""",
    ),
    Rule(
        name="terminal_agrees",
        statement="""
            select r.run_id, format('it is %s, its terminal says %s', r.status,
                                    coalesce(r.terminal ->> 'status', 'nothing'))
              from {schema}.runs r
             where r.status in ('completed', 'failed')
               and r.terminal ->> 'status' is distinct from r.status""",
    ),
    Rule(
        name="end_explained",
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
)

ATTEMPTS: Sequence[Rule] = (
    Rule(
        name="attempts_in_order",
        statement="""
            select r.run_id, format('%s attempts up to number %s, the run is at %s',
                                    count(a.attempt), coalesce(max(a.attempt), 0), r.attempt)
              from {schema}.runs r left join {schema}.attempts a on a.run_id = r.run_id
             group by r.run_id, r.attempt
            having count(a.attempt) <> r.attempt or coalesce(max(a.attempt), 0) <> r.attempt""",
    ),
    Rule(
        name="only_the_newest_lives",
        statement="""
            select a.run_id, format('attempt %s of %s is %s', a.attempt, r.attempt, a.status)
              from {schema}.attempts a join {schema}.runs r on r.run_id = a.run_id
             where a.attempt < r.attempt and a.status <> 'retired'""",
    ),
    Rule(
        name="attempt_agrees",
        statement="""
            select r.run_id, format('it is %s, attempt %s is %s', r.status, a.attempt, a.status)
              from {schema}.runs r
              join {schema}.attempts a on a.run_id = r.run_id and a.attempt = r.attempt
             where a.status <> r.status
               and not (a.status = 'retired' and r.status in ('queued', 'cancelled'))""",
    ),
    Rule(
        name="play_started_once",
        statement="""
            select a.run_id, format('attempt %s had a runner, and attempt %s came after it',
                                    a.attempt, r.attempt)
              from {schema}.attempts a join {schema}.runs r on r.run_id = a.run_id
             where a.attempt < r.attempt
               and (a.suspension is not null or a.runner_terminal is not null)""",
    ),
    Rule(
        name="runner_believed",
        statement="""
            select r.run_id, 'its terminal is not the one that its runner had stored'
              from {schema}.runs r
              join {schema}.attempts a on a.run_id = r.run_id and a.attempt = r.attempt
             where r.status in ('completed', 'failed') and a.runner_terminal is not null
               and r.terminal is distinct from a.runner_terminal - 'logs'""",
    ),
)

FACTS: Sequence[Rule] = (
    Rule(
        name="facts_without_gaps",
        statement="""
            select r.run_id, format('%s facts from %s to %s, the next would be %s', count(o.seq),
                                    min(o.seq), max(o.seq), r.next_seq)
              from {schema}.runs r left join {schema}.outbox o on o.run_id = r.run_id
             group by r.run_id, r.next_seq
            having count(o.seq) <> r.next_seq - 1 or min(o.seq) <> 1
                or max(o.seq) <> r.next_seq - 1""",
    ),
    Rule(
        name="created_fact_first",
        statement="""
            select r.run_id, 'its first fact is not that it was created'
              from {schema}.runs r
             where not exists (
                 select from {schema}.outbox o
                  where o.run_id = r.run_id and o.seq = 1 and o.kind = 'run.created')""",
    ),
    Rule(
        name="one_terminal_fact",
        statement="""
            select r.run_id, format('it is %s and has %s terminal facts', r.status, count(o.seq))
              from {schema}.runs r
              left join {schema}.outbox o
                on o.run_id = r.run_id and o.kind = any ({terminal_kinds})
             group by r.run_id, r.status, r.terminal_at
            having count(o.seq) <> case when r.terminal_at is null then 0 else 1 end""",
    ),
    Rule(
        name="terminal_fact_last",
        statement="""
            select o.run_id, format('fact %s (%s) came after its terminal fact', n.seq, n.kind)
              from {schema}.outbox o
              join {schema}.outbox n on n.run_id = o.run_id and n.seq > o.seq
             where o.kind = any ({terminal_kinds})""",
    ),
    Rule(
        name="terminal_fact_agrees",
        statement="""
            select r.run_id, format('it is %s, its terminal fact is %s', r.status, o.kind)
              from {schema}.runs r
              join {schema}.outbox o on o.run_id = r.run_id and o.kind = any ({terminal_kinds})
             where o.kind <> 'run.' || r.status or o.event_id <> 'run-terminal:' || r.run_id""",
    ),
    Rule(
        name="facts_in_order",
        statement="""
            select o.run_id, format('fact %s was delivered before fact %s', n.seq, o.seq)
              from {schema}.outbox o
              join {schema}.outbox n
                on n.run_id = o.run_id and n.seq > o.seq and n.delivered_at is not null
             where o.delivered_at is null or o.delivered_at > n.delivered_at""",
    ),
    Rule(
        name="facts_delivered",
        settled=True,
        statement="""
            select o.run_id, format('fact %s (%s) is not delivered%s', o.seq, o.kind,
                                    case when o.dead_at is null then '' else ', it is dead' end)
              from {schema}.outbox o where o.delivered_at is null""",
    ),
)

ROWS: Sequence[Rule] = (
    Rule(
        name="rows_in_their_sheet",
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
        statement="""
            select w.run_id, format('attempt %s wrote %s and does not exist', w.attempt, w.what)
              from (select run_id, attempt, 'row ' || row_index as what from {schema}.sheet_rows
                    union all
                    select run_id, attempt, 'step ' || step from {schema}.steps
                    union all
                    select run_id, attempt, 'receipt ' || receipt_key from {schema}.receipts) w
              left join {schema}.attempts a on a.run_id = w.run_id and a.attempt = w.attempt
             where a.run_id is null""",
    ),
    Rule(
        name="receipts_released",
        settled=True,
        statement="""
            select p.run_id, format('receipt %s is still leased', p.receipt_key)
              from {schema}.receipts p where p.state = 'leased'""",
    ),
)

SANDBOXES: Sequence[Rule] = (
    Rule(
        name="cleanup_owed",
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
)

ENGINE: Sequence[Rule] = (
    Rule(
        name="open_run_has_work",
        of_lanes=True,
        statement="""
            select r.run_id, format('it is %s, and the engine has nothing planned for it', r.status)
              from {schema}.runs r
             where r.lane = {lane} and r.terminal_at is null
               and not exists (
                   select from {engine_runs} e
                    where e.task_id = r.task_id
                      and e.state in ('pending', 'running', 'sleeping'))""",
    ),
    Rule(
        name="ended_run_has_none",
        of_lanes=True,
        statement="""
            select r.run_id, format('it is %s, and its engine task is %s', r.status, t.state)
              from {schema}.runs r join {tasks} t on t.task_id = r.task_id
             where r.lane = {lane} and r.terminal_at is not null
               and (t.state in ('pending', 'running', 'sleeping') or exists (
                   select from {engine_runs} e
                    where e.task_id = r.task_id
                      and e.state in ('pending', 'running', 'sleeping')))""",
    ),
    Rule(
        name="one_task_a_run",
        of_lanes=True,
        statement="""
            select t.params ->> 'run_id', format('engine task %s is not the one of its run',
                                                 t.task_id)
              from {tasks} t
              left join {schema}.runs r on r.task_id = t.task_id
             where t.task_name = 'play-run' and r.run_id is null""",
    ),
)

RULES: Sequence[Rule] = (*RUNS, *ATTEMPTS, *FACTS, *ROWS, *SANDBOXES, *ENGINE)
