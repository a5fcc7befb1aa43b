-- A run that waits for its admission is held back as its engine row is written (C05, C07, C56).
--
-- The engine makes the first attempt of a task due at once. Moving it to infinity in a second
-- statement cost a fifth of a submission: that statement is planned at each call, as the queue's
-- name is in it, and the row and its entries in all indexes are written twice. So a trigger of ours
-- on a queue's runs does it; later attempts keep the instant which the engine chose for them.
create function {schema}.hold_back() returns trigger language plpgsql as $$
begin
    new.available_at := 'infinity';
    return new;
end $$;

create function {schema}.hold_back_on(p_lane text) returns void language plpgsql as $$
begin
    execute format(
        'create or replace trigger held_back before insert on absurd.%I
            for each row when (new.attempt = 1) execute function %s()',
        'r_' || p_lane, '{schema}.hold_back'::regproc);
end $$;

create or replace function {schema}.ensure_lane(p_lane text, p_release_id text) returns void
language plpgsql as $$
begin
    if exists (select from {schema}.lanes l where l.lane = p_lane) then
        return;
    end if;
    perform pg_advisory_xact_lock(hashtextextended('deepline.ensure_lane', 0));
    if exists (select from {schema}.lanes l where l.lane = p_lane) then
        return;
    end if;
    perform absurd.create_queue(p_lane);
    -- Without it each claim sorts the whole backlog of the queue.
    execute format(
        'create index if not exists %I on absurd.%I (available_at, run_id)
          where state in (''pending'', ''sleeping'')',
        'r_' || p_lane || '_due', 'r_' || p_lane);
    perform {schema}.hold_back_on(p_lane);
    insert into {schema}.lanes (lane, release_id) values (p_lane, p_release_id)
    on conflict (lane) do nothing;
end $$;

-- Spawns the tasks of those of the requests' runs that are named, on their lanes; answers which
-- runs got a task made now. The task of a run that was admitted already is due at once.
create or replace function {schema}.spawn_tasks(p_requests jsonb, p_run_ids text[]) returns text[]
language plpgsql as $$
declare
    v_lane text;
    v_made text[] := '{}';
    v_lane_made text[];
    v_lane_admitted uuid[];
begin
    for v_lane in
        select distinct r.lane from {schema}.runs r where r.run_id = any (p_run_ids)
    loop
        with spawned as materialized (
            select r.run_id, r.admitted_at, s.task_id, s.run_id as engine_run_id, s.created
              from (select distinct on (q.run_id) q.* from jsonb_to_recordset(p_requests) as q(
                        run_id text, params jsonb, options jsonb)
                     where q.run_id = any (p_run_ids) order by q.run_id) q
             cross join lateral (
                 select r.* from {schema}.runs r
                  where r.run_id = q.run_id and r.lane = v_lane offset 0) r
             cross join lateral absurd.spawn_task(v_lane, 'play-run', q.params, q.options) s),
        linked as (
            update {schema}.runs r
               set task_id = s.task_id, engine_run_id = s.engine_run_id
              from spawned s where s.run_id = r.run_id)
        select coalesce(array_agg(s.run_id) filter (where s.created), '{}'),
               array_agg(s.engine_run_id) filter (where s.created and s.admitted_at is not null)
          into v_lane_made, v_lane_admitted from spawned s;
        if v_lane_admitted is not null then
            execute format(
                'update absurd.%I set available_at = $2 where run_id = any ($1)', 'r_' || v_lane)
            using v_lane_admitted, absurd.current_time();
        end if;
        perform pg_notify('deepline_wake', v_lane);
        v_made := v_made || v_lane_made;
    end loop;
    return v_made;
end $$;

-- Takes back a task made in this transaction, which nobody can have seen.
create function {schema}.unspawn(p_lane text, p_task_id uuid) returns void language plpgsql as $$
begin
    execute format('delete from absurd.%I where task_id = $1', 'r_' || p_lane) using p_task_id;
    execute format('delete from absurd.%I where task_id = $1', 't_' || p_lane) using p_task_id;
end $$;

-- The task comes first, so that the run is written once, with its ids. A run that is there already,
-- or that somebody else submits at this moment, goes the way of all. On that run's lane the engine's
-- idempotency key kept a second task from being made; one made on another lane is taken back.
create or replace function {schema}.submit(p_requests jsonb, p_project_created boolean)
returns table (answer jsonb) language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_delivered_at timestamptz := case when p_project_created then v_now end;
    q jsonb := p_requests -> 0;
    r {schema}.runs;
    v_fact jsonb;
    v_task record;
begin
    if jsonb_array_length(p_requests) = 1
       and not exists (select from {schema}.runs known where known.run_id = q ->> 'run_id')
    then
        select s.* into v_task from absurd.spawn_task(
            q ->> 'lane', 'play-run', q -> 'params', q -> 'options') s;
        insert into {schema}.runs (
            run_id, org_id, play_name, lane, release_id, placement_key, retry_of, created_at,
            next_seq, created_projected_at, task_id, engine_run_id)
        values (
            q ->> 'run_id', q ->> 'org_id', q ->> 'play_name', q ->> 'lane', q ->> 'release_id',
            q ->> 'placement_key', q ->> 'retry_of', v_now, 2, v_delivered_at,
            v_task.task_id, v_task.run_id)
        on conflict (run_id) do nothing
        returning * into r;
        if r.run_id is null and v_task.created then
            perform {schema}.unspawn(q ->> 'lane', v_task.task_id);
        end if;
    end if;
    if r.run_id is null then
        return query select t.answer from {schema}.submit_together(p_requests, p_project_created) t;
        return;
    end if;
    -- Nothing can be there of a run that was not there; so no insert looks for a conflict first.
    insert into {schema}.launches (run_id, launch, input, created_at)
    values (r.run_id, q -> 'launch', q -> 'input', v_now);
    v_fact := {schema}.created_fact(r);
    insert into {schema}.outbox (
        run_id, seq, event_id, kind, payload, occurred_at, due_at, delivered_at)
    values (r.run_id, 1, 'run-created:' || r.run_id, 'run.created', v_fact, v_now, v_now,
            v_delivered_at);
    if p_project_created then
        insert into {schema}.run_events (run_id, cursor, event_id, kind, payload, occurred_at)
        values (r.run_id, 1, 'run-created:' || r.run_id, 'run.created', v_fact, v_now);
    end if;
    perform pg_notify('deepline_wake', r.lane);
    answer := jsonb_build_object(
        'task_id', v_task.task_id, 'run_created', true, 'task_created', v_task.created,
        'task_recovery_required', false);
    return next;
end $$;

-- Lanes that are there already, unless their queue is gone.
do $$
declare
    v_lane text;
begin
    for v_lane in
        select l.lane from {schema}.lanes l
         where to_regclass(format('absurd.%I', 'r_' || l.lane)) is not null
    loop
        perform {schema}.hold_back_on(v_lane);
    end loop;
end $$;
