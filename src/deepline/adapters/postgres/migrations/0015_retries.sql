-- Runs that people ask for again, from the beginning or from where the run before them was.

-- What a run that goes on from another had been answered at its suspension points.
alter table {schema}.launches add column checkpoint jsonb;

create index runs_by_retry on {schema}.runs (retry_of, created_at desc, run_id desc)
    where retry_of is not null;

create or replace function {schema}.run_json(r {schema}.runs) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'run_id', r.run_id, 'org_id', r.org_id, 'play_name', r.play_name, 'status', r.status,
        'lane', r.lane, 'release_id', r.release_id, 'task_id', r.task_id, 'attempt', r.attempt,
        'created_at', {schema}.iso(r.created_at),
        'created_projected_at', {schema}.iso(r.created_projected_at),
        'cancel_requested_at', {schema}.iso(r.cancel_requested_at),
        'terminal_at', {schema}.iso(r.terminal_at), 'why', r.why,
        'retry_of', r.retry_of,
        'retried_as', (select n.run_id from {schema}.runs n where n.retry_of = r.run_id
                        order by n.created_at desc, n.run_id desc limit 1),
        'submitted_by', (select l.launch -> 'submittedBy' from {schema}.launches l
                          where l.run_id = r.run_id))
$$;

-- Gives a run all that an ended one had finished: steps, rows that did not fail, receipts, and the
-- answers at its suspension points. What was leased and not done stays in doubt.
create function {schema}.continue_run(p_run_id text, p_from text) returns void
language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
begin
    insert into {schema}.steps (run_id, step, attempt, output, created_at)
    select p_run_id, s.step, 0, s.output, v_now
      from {schema}.steps s where s.run_id = p_from order by s.step_order;
    insert into {schema}.receipts (
        run_id, receipt_key, org_id, attempt, state, output, created_at, updated_at)
    select p_run_id, t.receipt_key, t.org_id, 0,
           case t.state when 'done' then 'done' else 'released' end, t.output, v_now, v_now
      from {schema}.receipts t where t.run_id = p_from;
    insert into {schema}.sheets (run_id, table_namespace, total, created_at)
    select p_run_id, s.table_namespace, s.total, v_now
      from {schema}.sheets s where s.run_id = p_from;
    insert into {schema}.sheet_rows (
        run_id, table_namespace, row_index, attempt, input_row, output, error, finished_at)
    select p_run_id, w.table_namespace, w.row_index, 0, w.input_row, w.output, null, v_now
      from {schema}.sheet_rows w where w.run_id = p_from and w.error is null;
    update {schema}.launches l
       set checkpoint = jsonb_build_object('state', jsonb_build_object('resumed',
               coalesce(o.checkpoint #> '{state,resumed}', '{}')
               || coalesce(a.checkpoint #> '{state,resumed}', '{}')))
      from {schema}.runs r
      join {schema}.launches o on o.run_id = r.run_id
      left join {schema}.attempts a on a.run_id = r.run_id and a.attempt = r.attempt
     where l.run_id = p_run_id and r.run_id = p_from;
end $$;

-- Submits as `submit` does, and lets new runs go on from the one they name, in the same commit.
create function {schema}.submit_continued(p_requests jsonb, p_project_created boolean)
returns table (answer jsonb) language plpgsql as $$
declare
    q record;
begin
    for q in
        select s.answer, s.request
          from rows from ({schema}.submit(p_requests, p_project_created),
                          jsonb_array_elements(p_requests)) as s(answer, request)
    loop
        if (q.answer -> 'run_created')::boolean and (q.request -> 'continues')::boolean then
            perform {schema}.continue_run(q.request ->> 'run_id', q.request ->> 'retry_of');
        end if;
        answer := q.answer;
        return next;
    end loop;
end $$;
