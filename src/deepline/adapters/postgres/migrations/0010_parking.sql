-- An attempt between its claim and its end: bound, parked, resumed, deferred, given up
-- (C17, C19, C29, C50, C53, C54, C64).

-- The attempt as it stands if its holder may still write: newest, live as asked, run not ended.
create function {schema}.held_attempt(
    p_run_id text, p_attempt integer, p_lease_token text, p_statuses text[])
returns setof {schema}.attempts language sql stable rows 1 as $$
    select a.* from {schema}.attempts a
      join {schema}.runs r on r.run_id = a.run_id and r.attempt = a.attempt
     where a.run_id = p_run_id and a.attempt = p_attempt and a.lease_token = p_lease_token
       and a.status = any (p_statuses) and r.terminal_at is null
$$;

-- Is there a signal for this wait, not taken yet or taken by this very wait before?
create function {schema}.signal_waits(p_run_id text, p_suspension jsonb) returns boolean
language sql stable as $$
    select p_suspension ->> 'kind' = 'integration_event' and exists (
        select from {schema}.signals s
         where s.run_id = p_run_id and s.event_key = p_suspension ->> 'eventKey'
           and (s.claimed_boundary_id = p_suspension ->> 'boundaryId'
                or s.claimed_at is null
                   and coalesce(s.boundary_id, p_suspension ->> 'boundaryId')
                       = p_suspension ->> 'boundaryId'))
$$;

-- Puts a held engine run to sleep, spending no engine attempt; says so if it is due already.
create function {schema}.sleep_until(p_lane text, p_engine_run_id uuid, p_due timestamptz)
returns void language plpgsql as $$
begin
    perform absurd.schedule_run(p_lane, p_engine_run_id, p_due);
    if p_due <= absurd.current_time() then
        perform pg_notify('deepline_wake', p_lane);
    end if;
end $$;

-- Parks attempts: waiting, and the engine run asleep until its due time. What could have woken it
-- locks the run's row too, so it is either seen here or finds the engine run asleep. Who waits
-- for a time or an event holds no sandbox, so the one it had is owed a cleanup.
create function {schema}.park(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    a {schema}.attempts;
    v_now timestamptz := absurd.current_time();
    v_due timestamptz;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, attempt integer, lease_token text, lane text, engine_run_id uuid, owner text,
        suspension jsonb, checkpoint jsonb, silence jsonb, until timestamptz, why jsonb)
    loop
        select * into a from {schema}.held_attempt(
            q.run_id, q.attempt, q.lease_token, '{running,waiting}');
        if a.run_id is null or not {schema}.claim_is_held(q.lane, q.engine_run_id, q.owner) then
            answer := jsonb_build_object('held', false);
            return next;
            continue;
        end if;
        v_due := q.until;
        if a.runner_terminal is not null
            or a.pending is not null and q.suspension ->> 'kind' = 'detached_runner'
            or q.silence is not null
                and q.silence ->> 'heartbeatIdentity' is distinct from
                    {schema}.heartbeat_identity(a.heartbeat_at, a.heartbeat_seq)
            or {schema}.signal_waits(q.run_id, q.suspension)
        then
            v_due := v_now;
        end if;
        update {schema}.attempts t
           set status = 'waiting', suspension = q.suspension, checkpoint = q.checkpoint,
               silence = q.silence, claim_owner = null, adopted = false, updated_at = v_now,
               pending = case when q.suspension ->> 'kind' = 'detached_runner' then t.pending end
         where t.run_id = q.run_id and t.attempt = q.attempt;
        update {schema}.runs r set status = 'waiting'
         where r.run_id = q.run_id and r.status <> 'waiting';
        if q.suspension ->> 'kind' <> 'detached_runner' then
            perform {schema}.owe_cleanup(q.run_id, q.attempt);
        end if;
        perform {schema}.sleep_until(q.lane, q.engine_run_id, v_due);
        perform {schema}.note(q.run_id, q.attempt, q.why, true);
        answer := jsonb_build_object('held', true, 'until', {schema}.iso(v_due));
        return next;
    end loop;
end $$;

-- Stores what runners hand in as their end when their play suspends, and wakes the runs (C29).
create function {schema}.suspend_attempts(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    a {schema}.attempts;
    r {schema}.runs;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, attempt integer, pending jsonb, why jsonb)
    loop
        select * into r from {schema}.runs t where t.run_id = q.run_id;
        select * into a from {schema}.attempts t
         where t.run_id = q.run_id and t.attempt = q.attempt;
        answer := case
            when a.run_id is null then '{"refused": "attempt_unknown"}'::jsonb
            when coalesce(q.pending #>> '{suspension,kind}', '')
                not in ('sleep', 'integration_event') then '{"refused": "not_a_pause"}'
            when a.status not in ('running', 'waiting') or r.terminal_at is not null
                then '{"refused": "attempt_over"}'
            when a.runner_terminal is not null then '{"refused": "terminal_stored"}'
            when not {schema}.is_suspended(a) then '{"stored": true}'
            when q.pending -> 'suspension' in (a.pending -> 'suspension', a.suspension)
                then '{"stored": false}'
            else '{"refused": "suspended"}' end;
        if answer = '{"stored": true}' then
            update {schema}.attempts t
               set pending = q.pending, updated_at = absurd.current_time()
             where t.run_id = q.run_id and t.attempt = q.attempt;
            perform {schema}.note(q.run_id, q.attempt, q.why, false);
            perform {schema}.wake(r.lane, r.task_id);
        end if;
        return next;
    end loop;
end $$;

create function {schema}.resume(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    v_held boolean;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, attempt integer, lease_token text, lane text, engine_run_id uuid, owner text,
        checkpoint jsonb)
    loop
        v_held := exists (
            select from {schema}.held_attempt(q.run_id, q.attempt, q.lease_token, '{waiting}'))
            and {schema}.claim_is_held(q.lane, q.engine_run_id, q.owner);
        if v_held then
            update {schema}.attempts t
               set status = 'running', claim_owner = q.owner, silence = null,
                   checkpoint = q.checkpoint, updated_at = absurd.current_time()
             where t.run_id = q.run_id and t.attempt = q.attempt;
            update {schema}.runs r set status = 'running' where r.run_id = q.run_id;
        end if;
        answer := jsonb_build_object('held', v_held);
        return next;
    end loop;
end $$;

create function {schema}.defer(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    v_held boolean;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, lane text, engine_run_id uuid, owner text, delay_s double precision, why jsonb)
    loop
        v_held := {schema}.claim_is_held(q.lane, q.engine_run_id, q.owner);
        if v_held then
            perform {schema}.sleep_until(
                q.lane, q.engine_run_id, absurd.current_time() + make_interval(secs => q.delay_s));
            perform {schema}.note(r.run_id, r.attempt, q.why, true)
               from {schema}.runs r where r.run_id = q.run_id;
        end if;
        answer := jsonb_build_object('held', v_held);
        return next;
    end loop;
end $$;

-- Retires attempts before their play started. With `bound_s` it is a deferral through a token
-- outage: within the bound the start of the outage is handed on, past it nothing is written. With
-- `dependency` the wait for it is counted (C53).
create function {schema}.retire(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    a {schema}.attempts;
    v_now timestamptz := absurd.current_time();
    v_outage timestamptz;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, attempt integer, lease_token text, lane text, engine_run_id uuid, owner text,
        reason text, delay_s double precision, bound_s double precision, dependency text,
        why jsonb)
    loop
        select * into a from {schema}.held_attempt(
            q.run_id, q.attempt, q.lease_token, '{running}');
        v_outage := case when q.bound_s is not null then coalesce(a.outage_started_at, v_now) end;
        if a.run_id is null or not {schema}.claim_is_held(q.lane, q.engine_run_id, q.owner) then
            answer := jsonb_build_object('outcome', 'lost');
        elsif v_now - v_outage >= make_interval(secs => q.bound_s) then
            answer := jsonb_build_object(
                'outcome', 'exhausted', 'outage_started_at', {schema}.iso(v_outage));
        else
            perform {schema}.give_up(q.run_id, q.attempt, q.reason, v_outage, q.why);
            insert into {schema}.recovery_deferrals as d (
                run_id, dependency, first_failed_at, deferrals)
            select q.run_id, q.dependency, v_now, 1 where q.dependency is not null
            on conflict (run_id, dependency) do update set deferrals = d.deferrals + 1;
            perform {schema}.sleep_until(
                q.lane, q.engine_run_id, v_now + make_interval(secs => q.delay_s));
            answer := jsonb_build_object(
                'outcome', 'retired', 'outage_started_at', {schema}.iso(v_outage));
        end if;
        return next;
    end loop;
end $$;

-- Spends engine attempts. An attempt that runs and was never bound is retired in the same commit;
-- the runner of any other may live, so it stays as it is (A31).
create function {schema}.fail_attempts(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    v_held boolean;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, attempt integer, lease_token text, lane text, engine_run_id uuid, owner text,
        reason text, failure text, why jsonb)
    loop
        v_held := {schema}.claim_is_held(q.lane, q.engine_run_id, q.owner);
        if v_held then
            if exists (
                select from {schema}.held_attempt(
                    q.run_id, q.attempt, q.lease_token, '{running}') a
                 where a.suspension is null and a.runner_terminal is null)
            then
                perform {schema}.give_up(q.run_id, q.attempt, q.reason, null, q.why);
            else
                perform {schema}.note(q.run_id, q.attempt, q.why, false);
            end if;
            perform absurd.fail_run(
                q.lane, q.engine_run_id,
                jsonb_build_object('name', 'AttemptFailed', 'message', q.failure));
        end if;
        answer := jsonb_build_object('held', v_held);
        return next;
    end loop;
end $$;

create function {schema}.token_obtained(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
begin
    perform {schema}.lock_runs(p_requests);
    with over as (
        update {schema}.attempts a set outage_started_at = null
          from jsonb_to_recordset(p_requests) as q(
                   run_id text, attempt integer, lease_token text)
         where a.run_id = q.run_id and a.attempt = q.attempt and a.lease_token = q.lease_token
           and a.status in ('running', 'waiting') and a.outage_started_at is not null
        returning a.run_id, a.attempt)
    update {schema}.runs r set outage_started_at = null
      from over where r.run_id = over.run_id and r.attempt = over.attempt;
    return query select 'null'::jsonb from jsonb_array_elements(p_requests);
end $$;

-- Writes down the sandbox of an attempt. If its fence is lost the sandbox is owed a cleanup in
-- the same commit, even where an earlier search for it by name had found nothing (C64, I50).
create function {schema}.bind_sandboxes(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    v_now timestamptz := absurd.current_time();
    v_held boolean;
    v_operation {schema}.sandbox_operations;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select c.*, coalesce(r.org_id, '') as org_id from jsonb_to_recordset(p_requests) as c(
        run_id text, attempt integer, lease_token text, operation_key text, provider text,
        sandbox_id text, routing_domain text, suspension jsonb)
        left join {schema}.runs r on r.run_id = c.run_id
    loop
        v_held := exists (
            select from {schema}.held_attempt(q.run_id, q.attempt, q.lease_token, '{running}'));
        insert into {schema}.sandbox_operations as o (
            operation_key, token, name, provider, org_id, run_id, attempt, state, sandbox_id,
            routing_domain, bound_at)
        values (q.operation_key, q.operation_key, q.sandbox_id, q.provider, q.org_id, q.run_id,
                q.attempt, 'bound', q.sandbox_id, q.routing_domain, v_now)
        on conflict (operation_key) do update
           set state = case when o.state = 'deleting' then o.state else 'bound' end,
               sandbox_id = excluded.sandbox_id, bound_at = coalesce(o.bound_at, v_now),
               routing_domain = coalesce(excluded.routing_domain, o.routing_domain)
        returning * into v_operation;
        insert into {schema}.sandbox_usage (run_id, attempt, org_id, provider, sandbox_id, started_at)
        values (q.run_id, q.attempt, q.org_id, q.provider, q.sandbox_id, v_now)
        on conflict do nothing;
        if v_held then
            update {schema}.attempts a set suspension = q.suspension, updated_at = v_now
             where a.run_id = q.run_id and a.attempt = q.attempt;
            -- What the run waited for is there: a later wait begins anew (C53).
            delete from {schema}.recovery_deferrals d where d.run_id = q.run_id;
        else
            insert into {schema}.cleanup_jobs (
                run_id, attempt, org_id, provider, operation_key, sandbox_id, sandbox_name,
                operation_token, routing_domain)
            values (q.run_id, q.attempt, q.org_id, q.provider, q.operation_key, q.sandbox_id,
                    v_operation.name, v_operation.token, v_operation.routing_domain)
            on conflict (operation_key) do update
               set sandbox_id = excluded.sandbox_id, routing_domain = excluded.routing_domain,
                   done_at = null, due_at = v_now;
        end if;
        answer := jsonb_build_object('held', v_held);
        return next;
    end loop;
end $$;
