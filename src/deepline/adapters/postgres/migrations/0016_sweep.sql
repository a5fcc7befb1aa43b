-- The liveness sweep's pages of work and its verdicts (C39, C41, Q21), and the leases of duties.

create function {schema}.provider_of(p_suspension jsonb) returns text
language sql immutable parallel safe as $$
    select coalesce(nullif(p_suspension ->> 'sandboxProvider', ''), 'daytona')
$$;

-- In order of run within a provider, as the pages are. A beat changes no column of it: an index by
-- heartbeat would be written to by every beat of every runner.
create index attempts_detached on {schema}.attempts
    ({schema}.provider_of(suspension), run_id collate "C")
    where status = 'waiting' and runner_terminal is null
      and suspension ->> 'kind' = 'detached_runner';

-- A number of at least 0 from a document, at most `p_most`; null for all that is none.
create function {schema}.count_of(p_value jsonb, p_most numeric) returns double precision
language sql immutable parallel safe as $$
    select case when jsonb_typeof(p_value) = 'number' and (p_value #>> '{}')::numeric >= 0
                then least((p_value #>> '{}')::numeric, p_most) end
$$;

-- When the silence of a parked runner has lasted its timeout. One whose start cannot be read
-- counts from its parking.
create function {schema}.runner_stale_at(a {schema}.attempts, p_default_ms double precision)
returns timestamptz language sql stable parallel safe as $$
    select coalesce(
               a.heartbeat_at,
               to_timestamp(nullif(
                   {schema}.count_of(a.suspension -> 'startedAtMs', 7258118400000),
                   7258118400000) / 1000),
               a.updated_at)
           + make_interval(secs => coalesce(
               {schema}.count_of(a.suspension -> 'heartbeatTimeoutMs', 315360000000),
               p_default_ms) / 1000)
$$;

-- One page of stale runners for each of `p_after` = [{provider, after}, ...].
create function {schema}.stale_runners(
    p_after jsonb, p_limit integer, p_default_ms double precision, p_now timestamptz)
returns table (runner jsonb) language sql stable as $$
    select jsonb_build_object(
               'run_id', s.run_id, 'attempt', s.attempt, 'lease_token', s.lease_token,
               'release_id', s.release_id, 'provider', w.provider, 'suspension', s.suspension,
               'status', s.status, 'heartbeat_at', {schema}.iso(s.heartbeat_at),
               'heartbeat_identity',
                   {schema}.heartbeat_identity(s.heartbeat_at, s.heartbeat_seq))
      from jsonb_to_recordset(p_after) as w(provider text, after text)
     cross join lateral (
        select a.*, r.release_id
          from {schema}.attempts a
          join {schema}.runs r on r.run_id = a.run_id and r.attempt = a.attempt
         where a.status = 'waiting' and a.runner_terminal is null and a.pending is null
           and a.suspension ->> 'kind' = 'detached_runner'
           and {schema}.provider_of(a.suspension) = w.provider
           and a.run_id collate "C" > coalesce(w.after, '')
           and r.terminal_at is null and r.cancel_requested_at is null
           and {schema}.runner_stale_at(a, p_default_ms) <= p_now
         order by a.run_id collate "C"
         limit p_limit) s
$$;

create function {schema}.recorded_terminals(p_after text, p_limit integer)
returns table (terminal jsonb) language sql stable as $$
    select jsonb_build_object(
               'run_id', a.run_id, 'attempt', a.attempt, 'lease_token', a.lease_token,
               'release_id', r.release_id)
      from {schema}.attempts a
      join {schema}.runs r on r.run_id = a.run_id and r.attempt = a.attempt
     where a.status = 'waiting' and a.runner_terminal is not null
       and a.run_id collate "C" > coalesce(p_after, '')
       and r.terminal_at is null and r.cancel_requested_at is null
     order by a.run_id collate "C"
     limit p_limit
$$;

create function {schema}.liveness_work(
    p_after jsonb, p_after_terminal text, p_limit integer, p_default_ms double precision)
returns jsonb language plpgsql stable as $$
declare
    v_now timestamptz := absurd.current_time();
begin
    return jsonb_build_object(
        'found_at', {schema}.iso(v_now),
        'stale', (
            select coalesce(jsonb_agg(s.runner), '[]')
              from {schema}.stale_runners(p_after, p_limit, p_default_ms, v_now) s),
        'terminals', (
            select coalesce(jsonb_agg(t.terminal), '[]')
              from {schema}.recorded_terminals(p_after_terminal, p_limit) t));
end $$;

-- The verdict on a silent runner, if its attempt is in everything as it was found.
create function {schema}.record_verdicts(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    a {schema}.attempts;
    v_parked boolean;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, attempt integer, lease_token text, boundary_id text, sandbox_id text,
        heartbeat text, terminal jsonb, why jsonb)
    loop
        select * into a from {schema}.held_attempt(
            q.run_id, q.attempt, q.lease_token, '{waiting}');
        v_parked := exists (
            select from {schema}.runs r
             where r.run_id = a.run_id and r.cancel_requested_at is null);
        answer := jsonb_build_object('refused', case
            when not v_parked then 'attempt_over'
            when a.runner_terminal is not null then 'terminal_stored'
            when {schema}.is_suspended(a)
                or a.suspension ->> 'boundaryId' is distinct from q.boundary_id
                or a.suspension ->> 'sandboxId' is distinct from q.sandbox_id
                then 'suspension_moved'
            when {schema}.heartbeat_identity(a.heartbeat_at, a.heartbeat_seq)
                is distinct from q.heartbeat then 'heartbeat_moved' end);
        if answer = '{"refused": null}' then
            update {schema}.attempts t
               set runner_terminal = q.terminal, runner_terminal_at = absurd.current_time()
             where t.run_id = q.run_id and t.attempt = q.attempt;
            perform {schema}.note(q.run_id, q.attempt, q.why, false);
        end if;
        return next;
    end loop;
end $$;

-- Takes a duty that is free or whose lease has ended; answers who holds it and for how long.
create function {schema}.take_duty(p_duty text, p_owner text, p_lease_s double precision)
returns table (owner text, left_s double precision) language plpgsql as $$
#variable_conflict use_column
declare
    v_now timestamptz := absurd.current_time();
begin
    return query
        insert into {schema}.duty_leases as d (duty, owner, expires_at)
        values (p_duty, p_owner, v_now + make_interval(secs => p_lease_s))
        on conflict (duty) do update
           set owner = case when d.owner = p_owner or d.expires_at <= v_now
                            then p_owner else d.owner end,
               expires_at = case when d.owner = p_owner or d.expires_at <= v_now
                                 then excluded.expires_at else d.expires_at end
        returning d.owner, extract(epoch from d.expires_at - v_now)::double precision;
end $$;

create function {schema}.renew_duty(p_duty text, p_owner text, p_lease_s double precision)
returns boolean language sql as $$
    with renewed as (
        update {schema}.duty_leases d
           set expires_at = absurd.current_time() + make_interval(secs => p_lease_s)
         where d.duty = p_duty and d.owner = p_owner returning 1)
    select exists (select from renewed)
$$;

create function {schema}.release_duty(p_duty text, p_owner text) returns void
language sql as $$
    delete from {schema}.duty_leases d where d.duty = p_duty and d.owner = p_owner
$$;
