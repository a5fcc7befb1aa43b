-- Submitting one run takes a way of its own (C05, C07): most submissions come alone, and a statement
-- for whole batches spends more on starting its parts than on the row it then writes. A batch, and
-- a run that is there already, go the way of all.
alter function {schema}.submit(jsonb, boolean) rename to submit_together;

create function {schema}.submit(p_requests jsonb, p_project_created boolean)
returns table (answer jsonb) language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_delivered_at timestamptz := case when p_project_created then v_now end;
    q jsonb := p_requests -> 0;
    r {schema}.runs;
    v_fact jsonb;
    v_task record;
begin
    if jsonb_array_length(p_requests) = 1 then
        insert into {schema}.runs (
            run_id, org_id, play_name, lane, release_id, placement_key, retry_of, created_at,
            next_seq, created_projected_at)
        values (
            q ->> 'run_id', q ->> 'org_id', q ->> 'play_name', q ->> 'lane', q ->> 'release_id',
            q ->> 'placement_key', q ->> 'retry_of', v_now, 2, v_delivered_at)
        on conflict (run_id) do nothing
        returning * into r;
    end if;
    if r.run_id is null then
        return query select t.answer from {schema}.submit_together(p_requests, p_project_created) t;
        return;
    end if;
    insert into {schema}.launches (run_id, launch, input, created_at)
    values (r.run_id, q -> 'launch', q -> 'input', v_now)
    on conflict (run_id) do nothing;
    v_fact := {schema}.created_fact(r);
    insert into {schema}.outbox (
        run_id, seq, event_id, kind, payload, occurred_at, due_at, delivered_at)
    values (r.run_id, 1, 'run-created:' || r.run_id, 'run.created', v_fact, v_now, v_now,
            v_delivered_at);
    if p_project_created then
        insert into {schema}.run_events (run_id, cursor, event_id, kind, payload, occurred_at)
        values (r.run_id, 1, 'run-created:' || r.run_id, 'run.created', v_fact, v_now)
        on conflict do nothing;
    end if;
    select s.* into v_task from absurd.spawn_task(
        r.lane, 'play-run', q -> 'params', q -> 'options') s;
    update {schema}.runs u set task_id = v_task.task_id, engine_run_id = v_task.run_id
     where u.run_id = r.run_id;
    if v_task.created then
        -- Held back until a claim admits it.
        execute format(
            'update absurd.%I set available_at = ''infinity'' where run_id = $1', 'r_' || r.lane)
        using v_task.run_id;
    end if;
    perform pg_notify('deepline_wake', r.lane);
    answer := jsonb_build_object(
        'task_id', v_task.task_id, 'run_created', true, 'task_created', v_task.created,
        'task_recovery_required', false);
    return next;
end $$;
