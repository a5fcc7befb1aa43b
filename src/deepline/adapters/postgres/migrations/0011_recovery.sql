-- Runs that nobody brings to their end, facts that nobody takes, and what a dead sandbox left
-- (C26, C35, C37, C44, ENGINE §4).
--
-- The lists are read without a lock. What comes of a row is decided again under its fence.

-- When a detached runner's time is up, in milliseconds since the epoch; null for every other
-- suspension and for one that cannot be read. Casts stand behind the checks that allow them.
create function {schema}.ceiling_ms(p_suspension jsonb) returns bigint
language sql immutable parallel safe as $$
    select case
        when p_suspension ->> 'kind' = 'detached_runner'
             and jsonb_typeof(p_suspension -> 'runnerAttempt') = 'number'
             and jsonb_typeof(p_suspension -> 'startedAtMs') = 'number'
             and jsonb_typeof(p_suspension -> 'ceilingMs') = 'number'
             and jsonb_typeof(p_suspension -> 'boundaryId') = 'string'
             and jsonb_typeof(p_suspension -> 'sandboxId') = 'string'
             and jsonb_typeof(p_suspension -> 'sessionId') = 'string'
             and jsonb_typeof(p_suspension -> 'cmdId') = 'string'
        then case
            when (p_suspension ->> 'startedAtMs')::numeric between 0 and 7258118400000
                 and (p_suspension ->> 'ceilingMs')::numeric >= 0
            then floor((p_suspension ->> 'startedAtMs')::numeric
                       + least((p_suspension ->> 'ceilingMs')::numeric, 3155760000000))::bigint
            end
        end
$$;

create index attempts_by_ceiling on {schema}.attempts ({schema}.ceiling_ms(suspension), run_id)
    where status in ('running', 'waiting') and {schema}.ceiling_ms(suspension) is not null;
create index attempts_unreadable on {schema}.attempts (run_id)
    where status = 'waiting' and {schema}.ceiling_ms(suspension) is null
          and coalesce(suspension ->> 'kind', '') not in ('sleep', 'integration_event');
create index runs_open on {schema}.runs (run_id) where terminal_at is null;
create index outbox_dead on {schema}.outbox (run_id) where dead_at is not null;

create function {schema}.now_ms() returns bigint language sql stable as $$
    select floor(extract(epoch from absurd.current_time()) * 1000)::bigint
$$;

-- Runner terminals of open runs, on one lane or on all, oldest first.
create function {schema}.unsettled_terminals(
    p_lane text, p_older_than interval, p_after_at timestamptz, p_after_run_id text,
    p_limit integer)
returns table (answer jsonb) language sql stable as $$
    select jsonb_build_object(
        'run_id', a.run_id, 'attempt', a.attempt, 'lease_token', a.lease_token, 'lane', r.lane,
        'at', {schema}.iso(a.runner_terminal_at))
      from {schema}.attempts a
      join {schema}.runs r
        on r.run_id = a.run_id and r.attempt = a.attempt and r.terminal_at is null
     where a.status in ('running', 'waiting') and a.runner_terminal is not null
       and a.runner_terminal_at <= absurd.current_time() - p_older_than
       and (p_lane is null or r.lane = p_lane)
       and (p_after_at is null or (a.runner_terminal_at, a.run_id) > (p_after_at, p_after_run_id))
     order by a.runner_terminal_at, a.run_id
     limit p_limit
$$;

-- May somebody end this attempt for its ceiling now? One that runs is left to whoever works on it
-- for a whole lease.
create function {schema}.is_overdue(a {schema}.attempts, p_lease interval) returns boolean
language sql stable as $$
    select {schema}.ceiling_ms(a.suspension) <= {schema}.now_ms() and a.pending is null
       and (a.status = 'waiting'
            or a.status = 'running' and a.updated_at <= absurd.current_time() - p_lease)
$$;

-- Attempts past their ceiling on every lane, the longest first.
create function {schema}.overdue_attempts(
    p_lease interval, p_after_ms bigint, p_after_run_id text, p_limit integer)
returns table (answer jsonb) language sql stable as $$
    select jsonb_build_object(
        'run_id', a.run_id, 'attempt', a.attempt, 'lease_token', a.lease_token, 'lane', r.lane,
        'at', {schema}.iso(to_timestamp(0)
                           + {schema}.ceiling_ms(a.suspension) * interval '1 ms'))
      from {schema}.attempts a
      join {schema}.runs r
        on r.run_id = a.run_id and r.attempt = a.attempt and r.terminal_at is null
     where a.status in ('running', 'waiting')
       and {schema}.ceiling_ms(a.suspension) <= {schema}.now_ms()
       and (p_after_ms is null
            or ({schema}.ceiling_ms(a.suspension), a.run_id) > (p_after_ms, p_after_run_id))
       and {schema}.is_overdue(a, p_lease)
     order by {schema}.ceiling_ms(a.suspension), a.run_id
     limit p_limit
$$;

-- Takes overdue attempts to running under their own fence, which ends their being candidates.
create function {schema}.claim_overdue(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
begin
    perform {schema}.lock_runs(p_requests);
    return query
    with q as (
        select c.*, row_number() over (partition by c.run_id, c.attempt order by c.n) as turn
          from rows from (jsonb_to_recordset(p_requests) as (
                   run_id text, attempt integer, lease_token text, owner text, lease_ms bigint))
               with ordinality as c(run_id, attempt, lease_token, owner, lease_ms, n)),
    claimed as (
        update {schema}.attempts a
           set status = 'running', claim_owner = q.owner, silence = null,
               updated_at = absurd.current_time()
          from q join {schema}.runs r
            on r.run_id = q.run_id and r.attempt = q.attempt and r.terminal_at is null
         where q.turn = 1 and a.run_id = q.run_id and a.attempt = q.attempt
           and a.lease_token = q.lease_token
           and {schema}.is_overdue(a, q.lease_ms * interval '1 ms')
        returning q.n, a.run_id),
    running as (
        update {schema}.runs r set status = 'running'
          from claimed c where r.run_id = c.run_id)
    select jsonb_build_object('held', c.n is not null)
      from q left join claimed c on c.n = q.n
     order by q.n;
end $$;

-- Of the next so many open runs those whose task is over or gone, left alone by everybody for a
-- while. `after` says where to go on.
create function {schema}.stranded_runs(p_grace interval, p_after text, p_limit integer)
returns table (answer jsonb) language plpgsql stable as $$
declare
    v_latest timestamptz := absurd.current_time() - p_grace;
    v_run_ids text[];
    v_lane text;
    v_lane_found jsonb;
    v_found jsonb := '[]';
begin
    select coalesce(array_agg(o.run_id order by o.run_id), '{}') into v_run_ids from (
        select r.run_id from {schema}.runs r
         where r.terminal_at is null and (p_after is null or r.run_id > p_after)
         order by r.run_id limit p_limit) o;
    for v_lane in
        select distinct r.lane from {schema}.runs r where r.run_id = any (v_run_ids)
    loop
        execute format(
            'select jsonb_agg(jsonb_build_object(
                 ''run_id'', r.run_id, ''lane'', r.lane, ''attempt'', r.attempt,
                 ''release_id'', r.release_id,
                 ''task_id'', r.task_id, ''task_state'', t.state))
               from {schema}.runs r
               left join {schema}.attempts a on a.run_id = r.run_id and a.attempt = r.attempt
               left join %s t on t.task_id = r.task_id
              where r.run_id = any ($1) and r.lane = $2 and r.terminal_at is null
                and coalesce(t.state, ''failed'') in (''completed'', ''failed'', ''cancelled'')
                and coalesce(a.updated_at, r.created_at) <= $3',
            coalesce(to_regclass(format('absurd.%I', 't_' || v_lane))::text,
                     '(select null::uuid as task_id, null::text as state where false)'))
        into v_lane_found using v_run_ids, v_lane, v_latest;
        v_found := v_found || coalesce(v_lane_found, '[]');
    end loop;
    answer := jsonb_build_object(
        'runs', v_found, 'read_at', {schema}.iso(absurd.current_time()),
        'after', case when cardinality(v_run_ids) = p_limit then v_run_ids[p_limit] end);
    return next;
end $$;

-- Makes dead letters due again, of one run or of all, and writes down for whom.
create function {schema}.revive_dead_letters(p_run_id text, p_by text, p_limit integer)
returns integer language plpgsql as $$
declare
    v_run_ids text[];
    v_revived integer;
begin
    select coalesce(array_agg(d.run_id), '{}') into v_run_ids from (
        select distinct o.run_id from {schema}.outbox o
         where o.dead_at is not null and (p_run_id is null or o.run_id = p_run_id)
         order by o.run_id limit p_limit) d;
    perform 1 from {schema}.runs r where r.run_id = any (v_run_ids) order by r.run_id for update;
    with revived as (
        update {schema}.outbox o
           set dead_at = null, attempts = 0, due_at = absurd.current_time()
         where o.run_id = any (v_run_ids) and o.dead_at is not null
        returning o.run_id, o.seq)
    insert into {schema}.decisions (run_id, attempt, rule, evidence)
    select v.run_id, 0, 'outbox.revived', jsonb_build_object('by', p_by, 'seq', v.seq)
      from revived v;
    get diagnostics v_revived = row_count;
    return v_revived;
end $$;

-- Keeps the first diagnostic of each attempt.
create function {schema}.save_crash_diagnostics(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
begin
    return query
    with q as (
        select c.*, a.run_id is not null as known,
               row_number() over (partition by c.run_id, c.attempt order by c.n) as turn
          from rows from (jsonb_to_recordset(p_requests) as (
                   run_id text, attempt integer, diagnostic jsonb))
               with ordinality as c(run_id, attempt, diagnostic, n)
          left join {schema}.attempts a on a.run_id = c.run_id and a.attempt = c.attempt),
    saved as (
        insert into {schema}.crash_diagnostics (run_id, attempt, diagnostic, captured_at)
        select q.run_id, q.attempt, q.diagnostic, absurd.current_time()
          from q where q.known and q.turn = 1
         order by q.run_id, q.attempt
        on conflict do nothing
        returning run_id, attempt)
    select jsonb_build_object('known', q.known, 'saved', q.turn = 1 and s.run_id is not null)
      from q left join saved s on s.run_id = q.run_id and s.attempt = q.attempt
     order by q.n;
end $$;
