-- What all steps share, and the engine under the runs: lanes, wakes, claims, submitting (C05, C07).
--
-- Absurd's own objects stay as it made them. Ours are one index a queue, and the column
-- `available_at` of a queue's runs, by which a run is held back until admitted and woken early.
--
-- A step is a function that takes a jsonb array of requests and answers one row a request, in
-- order, so that many callers may share one transaction. A refusal is an answer, never an error.
--
-- Locks: rows of `runs` in run id order, then rows of `attempts` in key order, then the engine's.
-- Only a claim begins with the engine's rows; it never waits for ours but skips what is locked.

-- Beats and state changes rewrite these rows often; room on the page keeps that off the indexes.
alter table {schema}.attempts set (fillfactor = 70);
alter table {schema}.runs set (fillfactor = 70);

-- Taken over from a lost claim: whether its runner was started is not known until it parks again.
alter table {schema}.attempts add column adopted boolean not null default false;

create function {schema}.iso(p_at timestamptz) returns text
language sql stable parallel safe as $$
    select to_char(p_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

create function {schema}.heartbeat_identity(p_at timestamptz, p_seq bigint) returns text
language sql stable parallel safe as $$
    select {schema}.iso(p_at) || '#' || p_seq
$$;

create function {schema}.attempt_json(a {schema}.attempts) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'run_id', a.run_id, 'attempt', a.attempt, 'lease_token', a.lease_token,
        'status', a.status, 'engine_attempt', a.engine_attempt,
        'heartbeat_identity', {schema}.heartbeat_identity(a.heartbeat_at, a.heartbeat_seq),
        'heartbeat_at', {schema}.iso(a.heartbeat_at), 'created_at', {schema}.iso(a.created_at),
        'suspension', a.suspension, 'checkpoint', a.checkpoint, 'silence', a.silence,
        'runner_terminal', a.runner_terminal, 'pending', a.pending,
        'outage_started_at', {schema}.iso(a.outage_started_at))
$$;

-- Why something was decided. A park or a deferral that repeats the newest decision replaces it,
-- so that a run which waits for hours keeps one row and not thousands.
create function {schema}.note(p_run_id text, p_attempt integer, p_why jsonb, p_repeats boolean)
returns void language plpgsql as $$
begin
    if p_repeats then
        update {schema}.decisions d
           set evidence = p_why -> 'evidence', at = clock_timestamp()
         where d.attempt = p_attempt and d.rule = p_why ->> 'rule'
           and d.decision_id = (
               select n.decision_id from {schema}.decisions n
                where n.run_id = p_run_id order by n.decision_id desc limit 1);
        if found then
            return;
        end if;
    end if;
    insert into {schema}.decisions (run_id, attempt, rule, evidence)
    values (p_run_id, p_attempt, p_why ->> 'rule', coalesce(p_why -> 'evidence', '{}'));
end $$;

-- A durable obligation for each operation of the run whose sandbox may exist (C50). With an
-- attempt, for that attempt's alone.
create function {schema}.owe_cleanup(p_run_id text, p_attempt integer) returns void
language sql as $$
    insert into {schema}.cleanup_jobs (run_id, attempt, org_id, provider, operation_key, sandbox_id,
                                       sandbox_name, operation_token, routing_domain)
    select o.run_id, o.attempt, o.org_id, o.provider, o.operation_key, o.sandbox_id,
           o.name, o.token, o.routing_domain
      from {schema}.sandbox_operations o
     where o.run_id = p_run_id and (p_attempt is null or o.attempt = p_attempt)
       and o.state in ('reserved', 'bound', 'deleting')
    on conflict (operation_key) do nothing
$$;

create function {schema}.ensure_lane(p_lane text, p_release_id text) returns void
language plpgsql as $$
begin
    if exists (select from {schema}.lanes l where l.lane = p_lane) then
        return;
    end if;
    perform pg_advisory_xact_lock(hashtextextended('deepline.ensure_lane', 0));
    perform absurd.create_queue(p_lane);
    -- Without it each claim sorts the whole backlog of the queue.
    execute format(
        'create index if not exists %I on absurd.%I (available_at, run_id)
          where state in (''pending'', ''sleeping'')',
        'r_' || p_lane || '_due', 'r_' || p_lane);
    insert into {schema}.lanes (lane, release_id) values (p_lane, p_release_id)
    on conflict (lane) do nothing;
end $$;

-- Locks the runs of all requests, and their attempts: the one named, else the newest.
create function {schema}.lock_runs(p_requests jsonb) returns void
language plpgsql as $$
begin
    perform 1 from (
        select distinct q ->> 'run_id' as run_id from jsonb_array_elements(p_requests) q
         order by 1) q
    cross join lateral (
        select from {schema}.runs r where r.run_id = q.run_id for update) locked;
    perform 1 from (
        select distinct r.run_id, coalesce((q ->> 'attempt')::integer, r.attempt) as attempt
          from jsonb_array_elements(p_requests) q
         cross join lateral (
             select r.run_id, r.attempt from {schema}.runs r
              where r.run_id = q ->> 'run_id' offset 0) r
         order by 1, 2) q
    cross join lateral (
        select from {schema}.attempts a
         where a.run_id = q.run_id and a.attempt = q.attempt for update) locked;
end $$;

-- The engine's functions look at no owner, so whoever ends or extends a claim asks here first,
-- in a statement of its own: in one statement the engine would act before the check.
create function {schema}.claim_is_held(p_lane text, p_engine_run_id uuid, p_owner text)
returns boolean language plpgsql as $$
declare
    v_held boolean;
begin
    execute format(
        'select true from absurd.%I
          where run_id = $1 and claimed_by = $2 and state = ''running'' for update',
        'r_' || p_lane)
    into v_held using p_engine_run_id, p_owner;
    return coalesce(v_held, false);
end $$;

-- Will nobody ever claim the task of a run? The caller holds the lock of the run's row.
create function {schema}.task_is_over(p_lane text, p_task_id uuid) returns boolean
language plpgsql as $$
declare
    v_over boolean;
begin
    if not {schema}.task_exists(p_lane, p_task_id) then
        return true;
    end if;
    execute format(
        'select state in (''completed'', ''failed'', ''cancelled'') from absurd.%I
          where task_id = $1', 't_' || p_lane)
    into v_over using p_task_id;
    return v_over;
end $$;

create function {schema}.task_exists(p_lane text, p_task_id uuid) returns boolean
language plpgsql as $$
declare
    v_found boolean;
begin
    if p_task_id is null or to_regclass(format('absurd.%I', 't_' || p_lane)) is null then
        return false;
    end if;
    execute format('select true from absurd.%I where task_id = $1', 't_' || p_lane)
    into v_found using p_task_id;
    return coalesce(v_found, false);
end $$;

-- Make a sleeping engine run due now, and say so. The caller holds the lock of the run's row.
create function {schema}.wake(p_lane text, p_task_id uuid) returns boolean
language plpgsql as $$
declare
    v_woken integer;
begin
    if not {schema}.task_exists(p_lane, p_task_id) then
        return false;
    end if;
    execute format(
        'update absurd.%I set available_at = $2
          where task_id = $1 and state = ''sleeping'' and available_at > $2',
        'r_' || p_lane)
    using p_task_id, absurd.current_time();
    get diagnostics v_woken = row_count;
    if v_woken > 0 then
        perform pg_notify('deepline_wake', p_lane);
    end if;
    return v_woken > 0;
end $$;

create function {schema}.cancel_task(p_lane text, p_task_id uuid) returns void
language plpgsql as $$
begin
    if {schema}.task_exists(p_lane, p_task_id) then
        perform absurd.cancel_task(p_lane, p_task_id);
    end if;
end $$;

-- Extends every claim still held and answers `held` for each. A row that someone has locked is
-- passed over: waiting here could end in a deadlock with a batch of commits, and its claim is
-- being ended or swept at this moment.
create function {schema}.extend_claims(p_requests jsonb, p_lease_s integer)
returns table (answer jsonb) language plpgsql as $$
declare
    v_lane text;
    v_ids uuid[];
    v_owners text[];
    v_lane_held jsonb;
    v_held jsonb := '[]';
begin
    for v_lane in select distinct q ->> 'lane' from jsonb_array_elements(p_requests) q loop
        select array_agg((q ->> 'engine_run_id')::uuid), array_agg(q ->> 'owner')
        into v_ids, v_owners
        from jsonb_array_elements(p_requests) q where q ->> 'lane' = v_lane;
        execute format(
            'with free as (
                 select r.run_id from absurd.%1$I r
                   join unnest($1, $2) as c(run_id, owner)
                     on r.run_id = c.run_id and r.claimed_by = c.owner
                  where r.state = ''running'' for update of r skip locked)
             update absurd.%1$I r set claim_expires_at = $3 from free
              where r.run_id = free.run_id', 'r_' || v_lane)
        using v_ids, v_owners, absurd.current_time() + make_interval(secs => p_lease_s);
        execute format(
            'select jsonb_agg(jsonb_build_array(r.run_id, r.claimed_by)) from absurd.%I r
              where r.run_id = any ($1) and r.state = ''running''', 'r_' || v_lane)
        into v_lane_held using v_ids;
        v_held := v_held || coalesce(v_lane_held, '[]');
    end loop;
    return query
        select jsonb_build_object('held', v_held @> jsonb_build_array(
            jsonb_build_array(q ->> 'engine_run_id', q ->> 'owner')))
        from jsonb_array_elements(p_requests) q;
end $$;

create function {schema}.could_admit(p_lane text, p_org_limit integer) returns boolean
language sql stable as $$
    with recursive orgs(org_id) as (
        (select r.org_id from {schema}.runs r
          where r.lane = p_lane and r.status = 'queued' and r.admitted_at is null
          order by r.org_id limit 1)
        union all
        select (select r.org_id from {schema}.runs r
                 where r.lane = p_lane and r.status = 'queued' and r.admitted_at is null
                   and r.org_id > o.org_id
                 order by r.org_id limit 1)
          from orgs o where o.org_id is not null)
    select exists (
        select from orgs o
         where o.org_id is not null
           and p_org_limit > (
               select count(*) from (
                   select from {schema}.runs r
                    where r.lane = p_lane and r.org_id = o.org_id
                      and r.admitted_at is not null and r.terminal_at is null
                    limit p_org_limit) in_flight))
$$;

-- Seconds until the lane next has something to claim or to sweep; null when nothing is planned.
create function {schema}.next_due(p_lane text, p_org_limit integer) returns double precision
language plpgsql as $$
declare
    v_due timestamptz;
begin
    if to_regclass(format('absurd.%I', 'r_' || p_lane)) is null then
        return null;
    end if;
    if {schema}.could_admit(p_lane, p_org_limit) then
        return 0;
    end if;
    execute format(
        'select least(
             (select min(available_at) from absurd.%1$I where state in (''pending'', ''sleeping'')),
             (select min(claim_expires_at) from absurd.%1$I
               where state = ''running'' and claim_expires_at is not null))',
        'r_' || p_lane)
    into v_due;
    if v_due is null or v_due = 'infinity' then
        return null;
    end if;
    return greatest(extract(epoch from v_due - absurd.current_time()), 0);
end $$;

create function {schema}.end_claims(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    v_held boolean;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, lane text, engine_run_id uuid, owner text, failure text)
    loop
        v_held := {schema}.claim_is_held(q.lane, q.engine_run_id, q.owner);
        if v_held and q.failure is null then
            perform absurd.complete_run(q.lane, q.engine_run_id, '{}'::jsonb);
        elsif v_held then
            perform absurd.fail_run(
                q.lane, q.engine_run_id,
                jsonb_build_object('name', 'AttemptFailed', 'message', q.failure));
        end if;
        answer := jsonb_build_object('held', v_held);
        return next;
    end loop;
end $$;

-- Spawns the tasks of those of the requests' runs that are named, on their lanes; answers which
-- runs got a task made now. A run not admitted yet is held back at infinity until a claim admits it.
create function {schema}.spawn_tasks(p_requests jsonb, p_run_ids text[]) returns text[]
language plpgsql as $$
declare
    v_lane text;
    v_made text[] := '{}';
    v_lane_made text[];
    v_lane_held uuid[];
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
               array_agg(s.engine_run_id) filter (where s.created and s.admitted_at is null)
          into v_lane_made, v_lane_held from spawned s;
        execute format(
            'update absurd.%I set available_at = ''infinity'' where run_id = any ($1)',
            'r_' || v_lane)
        using v_lane_held;
        perform pg_notify('deepline_wake', v_lane);
        v_made := v_made || v_lane_made;
    end loop;
    return v_made;
end $$;

create function {schema}.submit(p_requests jsonb, p_project_created boolean)
returns table (answer jsonb) language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_new text[];
    v_made text[] := '{}';
begin
    -- In run id order, so that two batches with the same runs wait for each other and never both.
    with q as materialized (
        select distinct on (q.run_id) q.* from jsonb_to_recordset(p_requests) as q(
            run_id text, org_id text, play_name text, lane text, release_id text,
            placement_key text, retry_of text, launch jsonb, input jsonb)
        order by q.run_id),
    inserted as (
        insert into {schema}.runs as r (
            run_id, org_id, play_name, lane, release_id, placement_key, retry_of, created_at,
            next_seq, created_projected_at)
        select q.run_id, q.org_id, q.play_name, q.lane, q.release_id, q.placement_key,
               q.retry_of, v_now, 2, case when p_project_created then v_now end
          from q order by q.run_id
        on conflict (run_id) do nothing
        returning r),
    described as (
        insert into {schema}.launches (run_id, launch, input, created_at)
        select q.run_id, q.launch, q.input, v_now
          from q where q.run_id = any (array(select (i.r).run_id from inserted i))
        on conflict (run_id) do nothing),
    facts as (
        insert into {schema}.outbox (
            run_id, seq, event_id, kind, payload, occurred_at, due_at, delivered_at)
        select (i.r).run_id, 1, 'run-created:' || (i.r).run_id, 'run.created',
               {schema}.created_fact(i.r), v_now, v_now, case when p_project_created then v_now end
          from inserted i
        returning run_id, event_id, kind, payload),
    events as (
        insert into {schema}.run_events (run_id, cursor, event_id, kind, payload, occurred_at)
        select f.run_id, 1, f.event_id, f.kind, f.payload, v_now
          from facts f where p_project_created
        on conflict do nothing)
    select coalesce(array_agg((i.r).run_id), '{}') into v_new from inserted i;
    if v_new <> '{}' then
        v_made := {schema}.spawn_tasks(p_requests, v_new);
    end if;
    return query
        select jsonb_build_object(
            'task_id', r.task_id,
            'run_created', f.first_mention and r.run_id = any (v_new),
            'task_created', f.first_mention and r.run_id = any (v_made),
            'task_recovery_required', case
                when r.terminal_at is not null or r.run_id = any (v_made) then false
                else not {schema}.task_exists(r.lane, r.task_id) end)
        from (select q.run_id, q.n, row_number() over (partition by q.run_id order by q.n) = 1
                from rows from (jsonb_to_recordset(p_requests) as (run_id text))
                     with ordinality as q(run_id, n)) as f(run_id, n, first_mention)
        join {schema}.runs r on r.run_id = f.run_id
        order by f.n;
end $$;

create function {schema}.created_fact(r {schema}.runs) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'runId', r.run_id, 'orgId', r.org_id, 'playName', r.play_name, 'lane', r.lane,
        'releaseId', r.release_id, 'retryOf', r.retry_of,
        'createdAtMs', floor(extract(epoch from r.created_at) * 1000)::bigint)
$$;

-- Makes the missing task of an open run (C07.8). A run that was admitted before is due at once.
create function {schema}.recover_task(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    v_made text[];
begin
    perform {schema}.lock_runs(p_requests);
    for q in
        select r.*, e.request,
               r.run_id is not null and r.terminal_at is null
               and not {schema}.task_exists(r.lane, r.task_id) as missing
          from jsonb_array_elements(p_requests) as e(request)
          left join {schema}.runs r on r.run_id = e.request ->> 'run_id'
    loop
        v_made := '{}';
        if q.missing then
            v_made := {schema}.spawn_tasks(jsonb_build_array(q.request), array[q.run_id]);
        end if;
        select jsonb_build_object(
            'task_id', r.task_id, 'run_created', false, 'task_created', r.run_id = any (v_made),
            'task_recovery_required', false)
        into answer from {schema}.runs r where r.run_id = q.run_id;
        return next;
    end loop;
end $$;
