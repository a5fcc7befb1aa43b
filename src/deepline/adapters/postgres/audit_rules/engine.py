"""The engine has planned what our tables say, and nothing else (I15, I19, I24, I25, I30)."""

from collections.abc import Sequence

from deepline.adapters.postgres.audit_rules.rule import Rule

ENGINE: Sequence[Rule] = (
    Rule(
        name="open_run_has_work",
        holds=("I24",),
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
        holds=("I30",),
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
        holds=("I25",),
        of_lanes=True,
        statement="""
            select t.params ->> 'run_id', format('engine task %s is not the one of its run',
                                                 t.task_id)
              from {tasks} t
              left join {schema}.runs r on r.task_id = t.task_id
             where t.task_name = 'play-run' and r.run_id is null""",
    ),
    Rule(
        name="engine_attempts_spent",
        holds=("I15", "I19"),
        of_lanes=True,
        statement="""
            select r.run_id, format('engine attempt %s came after one that is %s', n.attempt,
                                    coalesce(e.state, 'gone'))
              from {schema}.runs r
              join {engine_runs} n on n.task_id = r.task_id and n.attempt > 1
              left join {engine_runs} e on e.task_id = n.task_id and e.attempt = n.attempt - 1
             where r.lane = {lane}
               and (e.state is distinct from 'failed' or e.failure_reason is null)""",
    ),
)
