-- Who may delete the sandboxes of a cancelled run, and the lease of exactly those (C09, C10).

-- Whose credentials made the sandbox: production or preview; null where nobody said.
alter table {schema}.sandbox_operations add column runtime_environment text
    check (runtime_environment in ('production', 'preview'));

-- One reservation, under the lock of the run's row and, where a limit counts, the provider's.
create function {schema}.reserve_one(
    p_run_id text, p_attempt integer, p_org_id text, p_provider text, p_provider_limit integer,
    p_org_limit integer, p_runtime_environment text)
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
        operation_key, token, name, provider, org_id, run_id, attempt, reserved_at,
        runtime_environment)
    select format('%s:%s:%s:%s', p_run_id, p_attempt, p_provider, count(*) + 1), v_token,
           'dl-' || v_token, p_provider, p_org_id, p_run_id, p_attempt, v_now,
           p_runtime_environment
      from {schema}.sandbox_operations b
     where b.run_id = p_run_id and b.attempt = p_attempt and b.provider = p_provider
    returning * into o;
    return {schema}.reservation_json(o, v_now, 'create');
end $$;

create or replace function {schema}.reserve_operations(p_requests jsonb)
returns table (answer jsonb) language plpgsql as $$
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
        provider_limit integer, org_limit integer, runtime_environment text)
    loop
        if exists (select from {schema}.held_attempt(
            q.run_id, q.attempt, q.lease_token, '{running}'))
        then
            answer := {schema}.reserve_one(
                q.run_id, q.attempt, q.org_id, q.provider, q.provider_limit, q.org_limit,
                q.runtime_environment);
        else
            answer := '{"kind": "lost"}';
        end if;
        return next;
    end loop;
end $$;

drop function {schema}.reserve_one(text, integer, text, text, integer, integer);

-- What is recorded of the sandboxes that a run may still hold.
create function {schema}.runtime_resources(p_run_id text) returns table (answer jsonb)
language sql stable as $$
    select jsonb_build_object(
        'kind', 'sandbox', 'provider', o.provider, 'resourceId', o.sandbox_id,
        'routingDomain', o.routing_domain, 'runtimeEnvironment', o.runtime_environment)
      from {schema}.sandbox_operations o
     where o.run_id = p_run_id and o.state in ('reserved', 'bound', 'deleting')
     order by o.reserved_at, o.operation_key
$$;

-- The jobs of exactly these sandboxes of a run now: whoever cancels the run waits for them.
create function {schema}.claim_cleanup_of_sandboxes(
    p_run_id text, p_sandboxes jsonb, p_owner text, p_lease interval)
returns table (answer jsonb) language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_job_ids bigint[];
begin
    select array_agg(due.job_id) into v_job_ids from (
        select j.job_id from {schema}.cleanup_jobs j
         where j.run_id = p_run_id and j.done_at is null
           and exists (select from jsonb_array_elements(p_sandboxes) s
                        where s ->> 0 = j.provider and s ->> 1 = j.sandbox_id)
           and coalesce(j.lease_expires_at, '-infinity') <= v_now
           and {schema}.sandbox_is_free(j)
         order by j.job_id
           for update of j skip locked) due;
    return query select l.answer from {schema}.lease_jobs(v_job_ids, p_owner, p_lease) l;
end $$;

-- What happened is written down whoever holds the job by now; the first acceptance stays (I41) and
-- ends the sandbox's time, however long the provider takes after it (C51, C55).
create or replace function {schema}.record_cleanup_events(p_requests jsonb)
returns table (answer jsonb) language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
begin
    with recorded as (
        insert into {schema}.cleanup_events (
            job_id, run_id, attempt, provider, sandbox_id, routing_domain, kind, fields, at)
        select q.job_id, q.run_id, q.attempt, q.provider, q.sandbox_id, q.routing_domain, q.kind,
               q.fields, v_now
          from jsonb_to_recordset(p_requests) as q(
                   job_id bigint, run_id text, attempt integer, provider text, sandbox_id text,
                   routing_domain text, kind text, fields jsonb)
         order by q.job_id
        on conflict do nothing
        returning *)
    update {schema}.sandbox_usage u
       set ended_at = greatest(u.started_at, v_now)
      from recorded e
     where e.kind = 'provider_delete_accepted' and u.run_id = e.run_id and u.attempt = e.attempt
       and u.provider = e.provider and u.sandbox_id = e.sandbox_id and u.ended_at is null;
    return query select 'true'::jsonb from jsonb_array_elements(p_requests);
end $$;
