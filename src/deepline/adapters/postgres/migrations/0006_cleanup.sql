-- Deleting sandboxes with proof: who may delete what, and how far it is (C50–C52, Q40).
--
-- A job is leased by its own row, without the run's: a dispatcher of deletes never waits for a run
-- nor for another dispatcher. What ends a job locks the run's row first.

-- May the job's sandbox go (I12)? Not while an attempt that has not ended may still make it its
-- own, or has its runner in it. A run that ended, an attempt given up, and a play that sleeps or
-- waits for an event hold none.
create function {schema}.sandbox_is_free(j {schema}.cleanup_jobs) returns boolean
language sql stable as $$
    select not exists (
        select from {schema}.runs r
          join {schema}.attempts a on a.run_id = r.run_id and a.attempt = j.attempt
         where r.run_id = j.run_id and r.terminal_at is null and a.status in ('running', 'waiting')
           and (a.suspension is null
                or a.suspension ->> 'kind' = 'detached_runner'
                   and coalesce(j.sandbox_id, a.suspension ->> 'sandboxId')
                       = a.suspension ->> 'sandboxId'))
$$;

create function {schema}.cleanup_job_json(j {schema}.cleanup_jobs) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'job_id', j.job_id, 'owner', j.owner, 'run_id', j.run_id, 'attempt', j.attempt,
        'org_id', j.org_id, 'provider', j.provider, 'sandbox_id', j.sandbox_id,
        'sandbox_name', j.sandbox_name, 'operation_token', j.operation_token,
        'routing_domain', j.routing_domain, 'cleanup_attempt', j.cleanup_attempt,
        'failure_count', j.failure_count, 'capture_crash', j.capture_crash,
        'age_ms', floor(extract(epoch from absurd.current_time() - j.created_at) * 1000)::bigint)
$$;

create function {schema}.lease_jobs(p_job_ids bigint[], p_owner text, p_lease interval)
returns table (answer jsonb) language sql as $$
    with leased as (
        update {schema}.cleanup_jobs j
           set owner = p_owner, lease_expires_at = absurd.current_time() + p_lease,
               cleanup_attempt = j.cleanup_attempt + 1
         where j.job_id = any (p_job_ids)
        returning j)
    select {schema}.cleanup_job_json(l.j)
      from leased l order by array_position(p_job_ids, (l.j).job_id)
$$;

create function {schema}.claim_cleanup(
    p_owner text, p_providers text[], p_limit integer, p_lease interval)
returns table (answer jsonb) language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_job_ids bigint[];
begin
    select array_agg(due.job_id) into v_job_ids from (
        select j.job_id from {schema}.cleanup_jobs j
         where j.done_at is null and j.due_at <= v_now and j.provider = any (p_providers)
           and coalesce(j.lease_expires_at, '-infinity') <= v_now
           and {schema}.sandbox_is_free(j)
         order by j.due_at, j.job_id
         limit p_limit
           for update of j skip locked) due;
    return query select l.answer from {schema}.lease_jobs(v_job_ids, p_owner, p_lease) l;
end $$;

-- The jobs of one attempt now, also those that were put off: somebody waits for the delete.
create function {schema}.claim_cleanup_of(
    p_run_id text, p_attempt integer, p_owner text, p_lease interval)
returns table (answer jsonb) language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_job_ids bigint[];
begin
    select array_agg(due.job_id) into v_job_ids from (
        select j.job_id from {schema}.cleanup_jobs j
         where j.run_id = p_run_id and j.attempt = p_attempt and j.done_at is null
           and coalesce(j.lease_expires_at, '-infinity') <= v_now
           and {schema}.sandbox_is_free(j)
         order by j.job_id
           for update of j skip locked) due;
    return query select l.answer from {schema}.lease_jobs(v_job_ids, p_owner, p_lease) l;
end $$;

-- When the provider accepted the delete of exactly this sandbox, of this run and attempt, in this
-- routing domain (I40).
create function {schema}.accepted_at(
    p_job_id bigint, p_run_id text, p_attempt integer, p_provider text, p_sandbox_id text,
    p_routing_domain text)
returns timestamptz language sql stable as $$
    select min(e.at) from {schema}.cleanup_events e
     where e.job_id = p_job_id and e.kind = 'provider_delete_accepted'
       and e.run_id = p_run_id and e.attempt = p_attempt and e.provider = p_provider
       and e.sandbox_id is not distinct from p_sandbox_id
       and e.routing_domain is not distinct from p_routing_domain
$$;

-- What happened is written down whoever holds the job by now; the first acceptance stays (I41).
create function {schema}.record_cleanup_events(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
begin
    insert into {schema}.cleanup_events (
        job_id, run_id, attempt, provider, sandbox_id, routing_domain, kind, fields, at)
    select q.job_id, q.run_id, q.attempt, q.provider, q.sandbox_id, q.routing_domain, q.kind,
           q.fields, v_now
      from jsonb_to_recordset(p_requests) as q(
               job_id bigint, run_id text, attempt integer, provider text, sandbox_id text,
               routing_domain text, kind text, fields jsonb)
     order by q.job_id
    on conflict do nothing;
    return query select 'true'::jsonb from jsonb_array_elements(p_requests);
end $$;

-- Closes jobs, or puts them off. A closed job ends the operation's claim on capacity and the
-- sandbox's time: at the first acceptance of its delete, else now (C55).
create function {schema}.finish_cleanup(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    j {schema}.cleanup_jobs;
    v_now timestamptz := absurd.current_time();
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        job_id bigint, owner text, cleanup_attempt integer, done boolean, delay_ms bigint,
        failed boolean, routing_domain text)
    loop
        update {schema}.cleanup_jobs t
           set owner = null, lease_expires_at = null,
               done_at = case when q.done then v_now end,
               due_at = case when q.done then t.due_at
                             else v_now + q.delay_ms * interval '1 ms' end,
               failure_count = t.failure_count + q.failed::integer,
               routing_domain = coalesce(q.routing_domain, t.routing_domain)
         where t.job_id = q.job_id and t.owner = q.owner
           and t.cleanup_attempt = q.cleanup_attempt and t.done_at is null
        returning * into j;
        answer := jsonb_build_object('held', found);
        if found and q.done then
            perform {schema}.end_operation(j, v_now);
        elsif found and q.routing_domain is not null then
            update {schema}.sandbox_operations o set routing_domain = q.routing_domain
             where o.operation_key = j.operation_key;
        end if;
        return next;
    end loop;
end $$;

create function {schema}.end_operation(j {schema}.cleanup_jobs, p_now timestamptz) returns void
language plpgsql as $$
declare
    o {schema}.sandbox_operations;
begin
    update {schema}.sandbox_operations t set state = 'gone', gone_at = p_now
     where t.operation_key = j.operation_key
    returning * into o;
    update {schema}.sandbox_usage u
       set ended_at = greatest(u.started_at, coalesce({schema}.accepted_at(
               j.job_id, j.run_id, j.attempt, j.provider, j.sandbox_id, j.routing_domain), p_now))
     where u.run_id = j.run_id and u.attempt = j.attempt and u.provider = j.provider
       and u.sandbox_id = coalesce(j.sandbox_id, o.sandbox_id) and u.ended_at is null;
end $$;
