-- Sandboxes before and after they exist: operations reserved under limits, and time used
-- (C46, C47, C55).
--
-- What is held is counted from the operations themselves; no number of it is kept anywhere (F20).

-- One reservation, under the lock of the run's row and, where a limit counts, the provider's.
create function {schema}.reserve_one(
    p_run_id text, p_attempt integer, p_org_id text, p_provider text, p_provider_limit integer,
    p_org_limit integer)
returns jsonb language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    -- 40 hex digits: a name with it suits every provider, and tells nobody whose it is.
    v_token text := left(encode(sha256(convert_to(
        p_org_id || ':' || gen_random_uuid()::text, 'UTF8')), 'hex'), 40);
    o {schema}.sandbox_operations;
begin
    select * into o from {schema}.sandbox_operations t
     where t.run_id = p_run_id and t.attempt = p_attempt and t.provider = p_provider
       and t.state in ('reserved', 'bound', 'deleting');
    if found then
        return {schema}.reservation_json(o, v_now, case
            when o.state = 'deleting' or exists (
                select from {schema}.cleanup_jobs j
                 where j.operation_key = o.operation_key and j.done_at is null)
            then 'finish_delete' else 'resume' end);
    end if;
    if p_provider_limit <= (
        select count(*) from {schema}.sandbox_operations t
         where t.provider = p_provider and t.state in ('reserved', 'bound', 'deleting'))
    then
        return jsonb_build_object('kind', 'no_room', 'limit', 'provider');
    end if;
    if p_org_limit <= (
        select count(*) from {schema}.sandbox_operations t
         where t.provider = p_provider and t.org_id = p_org_id
           and t.state in ('reserved', 'bound', 'deleting'))
    then
        return jsonb_build_object('kind', 'no_room', 'limit', 'organisation');
    end if;
    insert into {schema}.sandbox_operations as t (
        operation_key, token, name, provider, org_id, run_id, attempt, reserved_at)
    select format('%s:%s:%s:%s', p_run_id, p_attempt, p_provider, count(*) + 1), v_token,
           'dl-' || v_token, p_provider, p_org_id, p_run_id, p_attempt, v_now
      from {schema}.sandbox_operations b
     where b.run_id = p_run_id and b.attempt = p_attempt and b.provider = p_provider
    returning * into o;
    return {schema}.reservation_json(o, v_now, 'create');
end $$;

create function {schema}.reservation_json(
    o {schema}.sandbox_operations, p_now timestamptz, p_state text)
returns jsonb language sql stable as $$
    select jsonb_build_object(
        'kind', 'reserved', 'state', p_state, 'operation_key', o.operation_key, 'token', o.token,
        'name', o.name, 'provider', o.provider, 'org_id', o.org_id, 'run_id', o.run_id,
        'attempt', o.attempt,
        'age_ms', greatest(floor(extract(epoch from p_now - o.reserved_at) * 1000), 0)::bigint)
$$;

create function {schema}.reserve_operations(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
begin
    perform {schema}.lock_runs(p_requests);
    -- Always after the runs and in one order. Two reservers may not both take the last place.
    perform pg_advisory_xact_lock(hashtextextended('deepline.reserve.{schema}.' || p.provider, 0))
       from (select distinct c.provider
               from jsonb_to_recordset(p_requests) as c(
                   provider text, provider_limit integer, org_limit integer)
              where coalesce(c.provider_limit, c.org_limit) is not null
              order by c.provider) p;
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, attempt integer, lease_token text, org_id text, provider text,
        provider_limit integer, org_limit integer)
    loop
        if exists (select from {schema}.held_attempt(
            q.run_id, q.attempt, q.lease_token, '{running}'))
        then
            answer := {schema}.reserve_one(
                q.run_id, q.attempt, q.org_id, q.provider, q.provider_limit, q.org_limit);
        else
            answer := '{"kind": "lost"}';
        end if;
        return next;
    end loop;
end $$;

-- The create never reached the provider, so there is nothing to delete either. An operation whose
-- sandbox is known stays.
create function {schema}.abandon_operations(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
begin
    perform {schema}.lock_runs(p_requests);
    with abandoned as (
        update {schema}.sandbox_operations o set state = 'abandoned'
          from jsonb_to_recordset(p_requests) as q(operation_key text, token text)
         where o.operation_key = q.operation_key and o.token = q.token
           and o.state in ('reserved', 'deleting') and o.sandbox_id is null
        returning o.operation_key)
    update {schema}.cleanup_jobs j
       set done_at = absurd.current_time(), owner = null, lease_expires_at = null
      from abandoned a
     where j.operation_key = a.operation_key and j.done_at is null;
    return query select 'true'::jsonb from jsonb_array_elements(p_requests);
end $$;

-- Adds the times that an ended run's sandboxes lack (C27); answers whether any did.
create function {schema}.backfill_usage(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    v_added text[];
begin
    perform {schema}.lock_runs(p_requests);
    with added as (
        insert into {schema}.sandbox_usage (
            run_id, attempt, org_id, provider, sandbox_id, started_at, ended_at)
        select o.run_id, o.attempt, o.org_id, o.provider, o.sandbox_id, s.started_at,
               case when o.state = 'gone' then greatest(s.started_at, coalesce(
                   {schema}.accepted_at(j.job_id, j.run_id, j.attempt, j.provider, j.sandbox_id,
                                        j.routing_domain),
                   o.gone_at)) end
          from {schema}.runs r
          join {schema}.sandbox_operations o on o.run_id = r.run_id and o.sandbox_id is not null
          left join {schema}.cleanup_jobs j on j.operation_key = o.operation_key
         cross join lateral (select coalesce(o.bound_at, o.reserved_at) as started_at) s
         where r.terminal_at is not null
           and r.run_id in (select q ->> 'run_id' from jsonb_array_elements(p_requests) q)
         order by o.operation_key
        on conflict do nothing
        returning run_id)
    select array_agg(a.run_id) into v_added from added a;
    return query
        select jsonb_build_object('added', coalesce(q.run_id = any (v_added), false))
          from rows from (jsonb_to_recordset(p_requests) as (run_id text))
               with ordinality as q(run_id, n) order by q.n;
end $$;
