-- How runs end, and what may end them: terminals, cancels, heartbeats, signals
-- (C09, C11, C20, C21, C32, C34, Q37, Q44, Q51).

create function {schema}.terminal_payload(
    p_attempt integer, p_result jsonb, p_why jsonb, p_keep_log_tail boolean, p_at timestamptz)
returns jsonb language sql stable as $$
    select jsonb_build_object(
        'status', p_result -> 'status', 'attempt', p_attempt, 'why', p_why -> 'rule',
        'result', p_result - 'logs', 'committedAtMs', floor(extract(epoch from p_at) * 1000)::bigint)
        || case when p_keep_log_tail then jsonb_build_object('logTail', p_result -> 'logs')
                else '{}' end
$$;

-- Of the requests whose claim is given, the positions of those that still hold it; locks them.
create function {schema}.claims_held(p_requests jsonb) returns integer[]
language plpgsql as $$
declare
    v_lane text;
    v_ids uuid[];
    v_lane_held text[];
    v_held text[] := '{}';
begin
    for v_lane, v_ids in
        select q ->> 'lane', array_agg((q ->> 'engine_run_id')::uuid)
          from jsonb_array_elements(p_requests) q
         where q ->> 'lane' is not null group by 1
    loop
        -- Planned at each call, so kept small, and found by nothing but the ids: the index of the
        -- running ones would be read as a whole.
        execute format(
            'select array_agg(run_id || '' '' || claimed_by) filter (where state = ''running'')
               from (select run_id, claimed_by, state from absurd.%I
                      where run_id = any ($1) for update) named',
            'r_' || v_lane)
        into v_lane_held using v_ids;
        v_held := v_held || v_lane_held;
    end loop;
    return array(
        select q.n from jsonb_array_elements(p_requests) with ordinality as q(request, n)
         where (q.request ->> 'engine_run_id') || ' ' || (q.request ->> 'owner') = any (v_held));
end $$;

-- Ends runs under their fences. Every fact of an end is in this one transaction: the run's
-- terminal, the attempt's, settled facts before the terminal fact, the reason, the obligations to
-- clean up, the end of the engine task, the hint to whoever waits.
create function {schema}.commit_terminals(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_held integer[];
    v_ended jsonb;
    e record;
begin
    perform {schema}.lock_runs(p_requests);
    v_held := {schema}.claims_held(p_requests);
    with fenced as (
        select q.*, r.org_id, r.next_seq, a.runner_terminal is not null and q.preserve as kept,
               case when a.runner_terminal is not null and q.preserve
                    then a.runner_terminal else q.result end as final,
               row_number() over (partition by q.run_id order by q.n) as turn
          from rows from (jsonb_to_recordset(p_requests) as (
                   run_id text, attempt integer, lease_token text, lane text, engine_run_id uuid,
                   finaliser boolean, result jsonb, why jsonb, from_waiting boolean,
                   preserve boolean, settled jsonb, keep_log_tail boolean,
                   capture_crash boolean, stranded boolean))
               with ordinality as q(
                   run_id, attempt, lease_token, lane, engine_run_id, finaliser, result, why,
                   from_waiting, preserve, settled, keep_log_tail, capture_crash, stranded, n)
         cross join lateral (
             select r.* from {schema}.runs r where r.run_id = q.run_id offset 0) r
         cross join lateral (
             select a.* from {schema}.attempts a
              where a.run_id = q.run_id and a.attempt = q.attempt offset 0) a
         where r.attempt = q.attempt and r.terminal_at is null and a.lease_token = q.lease_token
           and (q.lane is null or q.n = any (v_held))
           and (a.status = 'running' or a.status = 'waiting' and q.from_waiting
                -- Nobody else may start the run again after its engine attempts are used up.
                or a.status = 'retired' and (q.finaliser or q.stranded))
           and (not q.stranded or {schema}.task_is_over(r.lane, r.task_id))),
    ended as (select f.* from fenced f where f.turn = 1),
    runs_ended as (
        update {schema}.runs r
           set status = f.final ->> 'status', terminal = f.final - 'logs', terminal_at = v_now,
               log_tail = case when f.keep_log_tail then f.final -> 'logs' end, why = f.why,
               next_seq = r.next_seq + jsonb_array_length(f.settled) + 1
          from ended f where r.run_id = f.run_id),
    attempts_ended as (
        update {schema}.attempts a
           set status = f.final ->> 'status', claim_owner = null, updated_at = v_now
          from ended f where a.run_id = f.run_id and a.attempt = f.attempt),
    facts as (
        insert into {schema}.outbox (run_id, seq, event_id, kind, payload, occurred_at, due_at)
        select f.run_id, f.next_seq + s.n::integer - 1, s.fact ->> 'event_id',
               'run.progress_settled', s.fact -> 'payload', v_now, v_now
          from ended f
         cross join lateral jsonb_array_elements(f.settled) with ordinality as s(fact, n)
        union all
        select f.run_id, f.next_seq + jsonb_array_length(f.settled), 'run-terminal:' || f.run_id,
               'run.' || (f.final ->> 'status'),
               {schema}.terminal_payload(f.attempt, f.final, f.why, f.keep_log_tail, v_now),
               v_now, v_now
          from ended f),
    reasons as (
        insert into {schema}.decisions (run_id, attempt, rule, evidence)
        select f.run_id, f.attempt, f.why ->> 'rule', coalesce(f.why -> 'evidence', '{}')
          from ended f),
    obligations as (
        insert into {schema}.cleanup_jobs as j (
            run_id, attempt, org_id, provider, operation_key, sandbox_id, sandbox_name,
            operation_token, routing_domain, capture_crash)
        select o.run_id, o.attempt, o.org_id, o.provider, o.operation_key, o.sandbox_id, o.name,
               o.token, o.routing_domain, f.capture_crash and o.attempt = f.attempt
          from ended f join {schema}.sandbox_operations o on o.run_id = f.run_id
         where o.state in ('reserved', 'bound', 'deleting')
        on conflict (operation_key) do update
           set capture_crash = j.capture_crash or excluded.capture_crash)
    select coalesce(jsonb_agg(jsonb_build_object(
               'n', f.n, 'run_id', f.run_id, 'lane', f.lane, 'engine_run_id', f.engine_run_id,
               'status', f.final -> 'status',
               'result', case when f.kept then f.final end)), '[]')
      into v_ended from ended f;
    for e in select * from jsonb_to_recordset(v_ended) as (
        run_id text, lane text, engine_run_id uuid, status text)
    loop
        if e.lane is not null then
            perform absurd.complete_run(
                e.lane, e.engine_run_id, jsonb_build_object('status', e.status));
        else
            perform {schema}.cancel_task(r.lane, r.task_id)
               from {schema}.runs r where r.run_id = e.run_id;
        end if;
        perform pg_notify('deepline_terminal', e.run_id);
    end loop;
    return query
        select jsonb_build_object(
            'committed', d.n is not null, 'status', coalesce(d.status, r.status),
            'result', d.result, 'at', case when d.n is not null then {schema}.iso(v_now) end)
        from rows from (jsonb_to_recordset(p_requests) as (run_id text))
             with ordinality as q(run_id, n)
        left join jsonb_to_recordset(v_ended) as d(n bigint, status text, result jsonb)
          on d.n = q.n
        left join {schema}.runs r on r.run_id = q.run_id
        order by q.n;
end $$;

-- Is the play suspended, parked or about to be? Then no runner speaks for it (C29).
create function {schema}.is_suspended(a {schema}.attempts) returns boolean
language sql immutable as $$
    select a.pending is not null
        or coalesce(a.suspension ->> 'kind' in ('sleep', 'integration_event'), false)
$$;

-- The runner's terminal on the attempt: the first stays, a fence is compared to the last digit.
create function {schema}.offer_terminals(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    a {schema}.attempts;
    r {schema}.runs;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, attempt integer, terminal jsonb, fenced boolean, heartbeat text, why jsonb)
    loop
        select * into r from {schema}.runs t where t.run_id = q.run_id;
        select * into a from {schema}.attempts t
         where t.run_id = q.run_id and t.attempt = q.attempt;
        if a.runner_terminal is not null then
            answer := jsonb_build_object('outcome', 'already_stored');
        elsif {schema}.is_suspended(a) and a.status in ('running', 'waiting')
            and r.terminal_at is null
        then
            answer := jsonb_build_object(
                'outcome', 'refused', 'liveness_exists', true, 'suspended', true);
        elsif a.run_id is null or a.status not in ('running', 'waiting')
            or r.terminal_at is not null
            or q.fenced and q.heartbeat is distinct from
                {schema}.heartbeat_identity(a.heartbeat_at, a.heartbeat_seq)
        then
            answer := jsonb_build_object(
                'outcome', 'refused', 'liveness_exists', a.run_id is not null);
        else
            update {schema}.attempts t
               set runner_terminal = q.terminal, runner_terminal_at = absurd.current_time()
             where t.run_id = q.run_id and t.attempt = q.attempt;
            perform {schema}.note(q.run_id, q.attempt, q.why, false);
            perform {schema}.wake(r.lane, r.task_id);
            answer := jsonb_build_object('outcome', 'stored');
        end if;
        return next;
    end loop;
end $$;

-- Beats take no lock of the run: what ends an attempt changes its row. Each beat of a batch gets
-- an identity of its own.
create function {schema}.beat(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
begin
    perform 1 from {schema}.attempts a
     where (a.run_id, a.attempt) in (
        select q ->> 'run_id', (q ->> 'attempt')::integer from jsonb_array_elements(p_requests) q)
     order by a.run_id, a.attempt
       for no key update;
    return query
    with q as (
        select c.*, row_number() over (partition by c.run_id, c.attempt order by c.n) as turn
          from rows from (jsonb_to_recordset(p_requests) as (run_id text, attempt integer))
               with ordinality as c(run_id, attempt, n)),
    beaten as (
        update {schema}.attempts a
           set heartbeat_at = v_now, heartbeat_seq = a.heartbeat_seq + b.beats
          from (select q.run_id, q.attempt, count(*) as beats from q group by 1, 2) b
         where a.run_id = b.run_id and a.attempt = b.attempt
           and a.status in ('running', 'waiting') and a.runner_terminal is null
           and not {schema}.is_suspended(a)
        returning a.run_id, a.attempt, a.heartbeat_seq - b.beats as seq)
    select case
        when b.run_id is not null then jsonb_build_object(
            'identity', {schema}.heartbeat_identity(v_now, b.seq + q.turn))
        when a.run_id is null then jsonb_build_object('refused', 'unknown_attempt')
        when a.status not in ('running', 'waiting') then
            jsonb_build_object('refused', 'attempt_over')
        when a.runner_terminal is not null then
            jsonb_build_object('refused', 'terminal_stored')
        else jsonb_build_object('refused', 'suspended') end
      from q
      left join beaten b on b.run_id = q.run_id and b.attempt = q.attempt
      left join {schema}.attempts a on a.run_id = q.run_id and a.attempt = q.attempt
     order by q.n;
end $$;

-- Cancels runs that have not ended. With `unstarted` only a run which has no attempt and is still
-- queued, on this release and this task.
create function {schema}.cancel_runs(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    r {schema}.runs;
    v_now timestamptz := absurd.current_time();
    v_had_attempt boolean;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, cancelled_by text, reason text, why jsonb, unstarted boolean,
        release_id text, task_id uuid, task_over boolean)
    loop
        select * into r from {schema}.runs t where t.run_id = q.run_id;
        if r.run_id is null or r.terminal_at is not null
            or q.unstarted and (r.attempt > 0 or r.status <> 'queued'
                or r.release_id is distinct from q.release_id
                or r.task_id is distinct from q.task_id
                or q.task_over and not {schema}.task_is_over(r.lane, r.task_id))
        then
            answer := jsonb_build_object('cancelled', false, 'status', r.status);
            return next;
            continue;
        end if;
        update {schema}.attempts a
           set status = 'cancelled', claim_owner = null, updated_at = v_now
         where a.run_id = q.run_id and a.attempt = r.attempt
           and a.status in ('running', 'waiting');
        v_had_attempt := found;
        update {schema}.runs t
           set status = 'cancelled', terminal_at = v_now, cancel_requested_at = v_now,
               cancelled_by = q.cancelled_by, why = q.why, next_seq = r.next_seq + 1
         where t.run_id = q.run_id;
        insert into {schema}.outbox (run_id, seq, event_id, kind, payload, occurred_at, due_at)
        values (q.run_id, r.next_seq, 'run-terminal:' || q.run_id, 'run.cancelled',
                jsonb_build_object(
                    'status', 'cancelled', 'attempt', r.attempt, 'why', q.why -> 'rule',
                    'by', q.cancelled_by, 'reason', q.reason,
                    'committedAtMs', floor(extract(epoch from v_now) * 1000)::bigint),
                v_now, v_now);
        perform {schema}.note(q.run_id, r.attempt, q.why, false);
        perform {schema}.owe_cleanup(q.run_id, null);
        perform {schema}.cancel_task(r.lane, r.task_id);
        perform pg_notify('deepline_cancel', q.run_id), pg_notify('deepline_terminal', q.run_id);
        answer := jsonb_build_object('cancelled', true, 'had_attempt', v_had_attempt);
        return next;
    end loop;
end $$;

-- Stores signals and wakes a run that waits for one (C11, Q10).
create function {schema}.put_signals(p_requests jsonb, p_unclaimed_max integer)
returns table (answer jsonb) language plpgsql as $$
declare
    q record;
    v_waits boolean;
begin
    perform {schema}.lock_runs(p_requests);
    for q in
        select c.*, r.run_id is not null as known, r.terminal_at is not null as ended,
               r.lane, r.task_id, r.attempt
          from jsonb_to_recordset(p_requests) as c(
                   run_id text, signal_id text, event_key text, boundary_id text, payload jsonb)
          left join {schema}.runs r on r.run_id = c.run_id
    loop
        answer := case
            when not q.known then '{"refused": "not_found"}'::jsonb
            when exists (
                select from {schema}.signals s
                 where s.run_id = q.run_id
                   and (s.signal_id = q.signal_id
                        or q.signal_id is null and s.claimed_at is null
                           and s.event_key = q.event_key and s.payload = q.payload
                           and s.boundary_id is not distinct from q.boundary_id))
                then '{"stored": false}'
            when q.ended then '{"refused": "run_ended"}'
            when p_unclaimed_max <= (
                select count(*) from {schema}.signals s
                 where s.run_id = q.run_id and s.claimed_at is null)
                then '{"refused": "signal_quota"}'
            else '{"stored": true}' end;
        if answer = '{"stored": true}' then
            insert into {schema}.signals (run_id, signal_id, event_key, boundary_id, payload)
            values (q.run_id, coalesce(q.signal_id, gen_random_uuid()::text), q.event_key,
                    q.boundary_id, q.payload);
            select {schema}.signal_waits(q.run_id, a.suspension) into v_waits
              from {schema}.attempts a
             where a.run_id = q.run_id and a.attempt = q.attempt and a.status = 'waiting';
            if v_waits then
                perform {schema}.wake(q.lane, q.task_id);
            end if;
        end if;
        return next;
    end loop;
end $$;

create function {schema}.take_signals(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    s {schema}.signals;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, event_key text, waiting_boundary_id text)
    loop
        select * into s from {schema}.signals t
         where t.run_id = q.run_id and t.event_key = q.event_key
           and (t.claimed_boundary_id = q.waiting_boundary_id
                or t.claimed_at is null
                   and coalesce(t.boundary_id, q.waiting_boundary_id) = q.waiting_boundary_id)
         order by t.claimed_at nulls last, t.created_at, t.signal_id
         limit 1;
        update {schema}.signals t
           set claimed_boundary_id = q.waiting_boundary_id, claimed_at = clock_timestamp()
         where t.run_id = s.run_id and t.signal_id = s.signal_id and t.claimed_at is null;
        answer := case when s.run_id is null then 'null'::jsonb else jsonb_build_object(
            'event_key', s.event_key, 'boundary_id', s.boundary_id, 'payload', s.payload) end;
        return next;
    end loop;
end $$;
