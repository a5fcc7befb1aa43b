-- Who serves which lane, what a lane holds, and the end of lanes (C56, C57).

alter table {schema}.lanes add column handed_over boolean not null default false;

-- A worker serves its own lane and those that it adopted; `release_id` is the worker's own.
alter table {schema}.workers drop constraint workers_pkey;
alter table {schema}.workers add primary key (lane, worker);
alter table {schema}.workers
    add column adopted boolean not null default false,
    add column leaving boolean not null default false;
create index workers_by_name on {schema}.workers (worker);

-- Looks again once it has the lock: making a queue that is there already locks tables that submits
-- are writing to, in another order than theirs.
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
    insert into {schema}.lanes (lane, release_id) values (p_lane, p_release_id)
    on conflict (lane) do nothing;
end $$;

-- The engine keeps one open run a task.
create function {schema}.open_tasks(p_lane text) returns bigint language plpgsql stable as $$
declare
    v_open bigint := 0;
begin
    if to_regclass(format('absurd.%I', 'r_' || p_lane)) is not null then
        execute format(
            'select count(*) from absurd.%I where state in (''pending'', ''running'', ''sleeping'')',
            'r_' || p_lane)
        into v_open;
    end if;
    return v_open;
end $$;

create function {schema}.lane_json(l {schema}.lanes) returns jsonb language sql stable as $$
    select jsonb_build_object(
        'lane', l.lane, 'release_id', l.release_id, 'read_at', {schema}.iso(absurd.current_time()),
        'created_at', {schema}.iso(l.created_at), 'last_claim_at', {schema}.iso(l.last_claim_at),
        'open_tasks', {schema}.open_tasks(l.lane), 'queued', q.queued, 'running', b.running,
        'parked', b.parked, 'oldest_open_at', {schema}.iso(b.oldest_at),
        'draining', l.draining, 'handed_over', l.handed_over, 'workers', w.workers)
      from (select count(*) as queued from {schema}.runs r
             where r.lane = l.lane and r.status = 'queued' and r.admitted_at is null) q
     cross join (
            select count(*) filter (where r.status <> 'waiting') as running,
                   count(*) filter (where r.status = 'waiting') as parked,
                   min(r.created_at) as oldest_at
              from {schema}.runs r
             where r.lane = l.lane and r.admitted_at is not null and r.terminal_at is null) b
     cross join (
            select jsonb_agg(jsonb_build_object(
                       'worker', s.worker, 'release_id', s.release_id, 'adopted', s.adopted,
                       'leaving', s.leaving, 'started_at', {schema}.iso(s.started_at),
                       'seen_at', {schema}.iso(s.seen_at)) order by s.seen_at desc, s.worker)
                   as workers
              from (select * from {schema}.workers n where n.lane = l.lane
                     order by n.seen_at desc, n.worker limit 100) s) w
$$;

drop function {schema}.lane_states();

create function {schema}.lane_states() returns table (state jsonb) language sql stable as $$
    select {schema}.lane_json(n) from (
        select * from {schema}.lanes l order by l.created_at desc, l.lane desc limit 2000) n
     order by n.created_at, n.lane
$$;

create function {schema}.lane_state(p_lane text) returns table (state jsonb)
language sql stable as $$
    select {schema}.lane_json(l) from {schema}.lanes l where l.lane = p_lane
$$;

create function {schema}.lane_beat(
    p_worker text, p_release_id text, p_leaving boolean, p_lanes text[], p_adopted boolean[])
returns void language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
begin
    delete from {schema}.workers w where w.worker = p_worker and not w.lane = any (p_lanes);
    insert into {schema}.workers as w (
        worker, lane, release_id, adopted, leaving, started_at, seen_at)
    select p_worker, s.lane, p_release_id, s.adopted, p_leaving, v_now, v_now
      from unnest(p_lanes, p_adopted) as s(lane, adopted)
    on conflict (lane, worker) do update
       set adopted = excluded.adopted, leaving = excluded.leaving, seen_at = v_now;
    if not p_leaving then
        update {schema}.lanes l set handed_over = false
          from unnest(p_lanes, p_adopted) as s(lane, adopted)
         where l.lane = s.lane and not s.adopted and l.handed_over;
    end if;
    -- Whoever finds them locked leaves them to whoever locked them.
    delete from {schema}.workers w
     where (w.lane, w.worker) in (
         select o.lane, o.worker from {schema}.workers o
          where o.seen_at < v_now - interval '1 day' limit 100 for update skip locked);
end $$;

create function {schema}.lane_left(p_worker text) returns void language sql as $$
    delete from {schema}.workers w where w.worker = p_worker
$$;

create function {schema}.drain_lane(p_lane text, p_draining boolean) returns boolean
language sql as $$
    with marked as (
        update {schema}.lanes l set draining = p_draining where l.lane = p_lane returning 1)
    select exists (select from marked)
$$;

create function {schema}.hand_lane_over(p_lane text) returns boolean language sql as $$
    with marked as (
        update {schema}.lanes l set handed_over = true where l.lane = p_lane returning 1)
    select exists (select from marked)
$$;

-- Nobody can submit between the look and the end: a submit writes into the queue, which is locked.
create function {schema}.prune_lane(p_lane text, p_lost_after_s double precision) returns boolean
language plpgsql as $$
begin
    perform set_config('lock_timeout', '2s', true);
    perform pg_advisory_xact_lock(hashtextextended('deepline.ensure_lane', 0));
    if to_regclass(format('absurd.%I', 't_' || p_lane)) is not null then
        execute format('lock table absurd.%I, absurd.%I in access exclusive mode',
                       't_' || p_lane, 'r_' || p_lane);
    end if;
    if {schema}.open_tasks(p_lane) > 0
       or not exists (select from {schema}.lanes l where l.lane = p_lane)
       or exists (select from {schema}.runs r where r.lane = p_lane and r.status = 'queued'
                     and r.admitted_at is null)
       or exists (select from {schema}.runs r where r.lane = p_lane and r.admitted_at is not null
                     and r.terminal_at is null)
       or exists (select from {schema}.workers w where w.lane = p_lane
                     and w.seen_at > absurd.current_time() - make_interval(secs => p_lost_after_s))
    then
        return false;
    end if;
    if to_regclass(format('absurd.%I', 't_' || p_lane)) is not null then
        perform absurd.drop_queue(p_lane);
    end if;
    delete from {schema}.workers w where w.lane = p_lane;
    delete from {schema}.lanes l where l.lane = p_lane;
    return true;
end $$;
