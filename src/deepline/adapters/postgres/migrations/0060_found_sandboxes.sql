-- Sandboxes that a look-up by name found: written down before they are deleted (C47–C49), and
-- looked for again afterwards, since an unanswered create may make another one.

-- `searched`: the job's sandbox came of a look-up.
alter table {schema}.cleanup_jobs add column searched boolean not null default false;

create or replace function {schema}.cleanup_job_json(j {schema}.cleanup_jobs) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'job_id', j.job_id, 'owner', j.owner, 'run_id', j.run_id, 'attempt', j.attempt,
        'org_id', j.org_id, 'provider', j.provider, 'sandbox_id', j.sandbox_id,
        'sandbox_name', j.sandbox_name, 'operation_token', j.operation_token,
        'routing_domain', j.routing_domain, 'cleanup_attempt', j.cleanup_attempt,
        'failure_count', j.failure_count, 'capture_crash', j.capture_crash,
        'searched', j.searched,
        'age_ms', floor(extract(epoch from absurd.current_time() - j.created_at) * 1000)::bigint)
$$;

-- Records what was found, while the job is held and only under the exact identity of its operation.
-- One whose sandbox is known came to light meanwhile: it is deleted as that.
create function {schema}.record_found_sandboxes(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    v_now timestamptz := absurd.current_time();
    o {schema}.sandbox_operations;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, attempt integer, job_id bigint, owner text, cleanup_attempt integer,
        org_id text, provider text, sandbox_id text, sandbox_name text, operation_token text,
        routing_domain text)
    loop
        update {schema}.cleanup_jobs j
           set sandbox_id = q.sandbox_id, searched = true,
               routing_domain = coalesce(q.routing_domain, j.routing_domain)
          from {schema}.sandbox_operations t
         where j.job_id = q.job_id and j.owner = q.owner and j.done_at is null
           and j.cleanup_attempt = q.cleanup_attempt and j.sandbox_id is null
           and t.operation_key = j.operation_key and t.token = q.operation_token
           and t.name = q.sandbox_name and t.provider = q.provider and t.org_id = q.org_id
           and t.run_id = q.run_id and t.attempt = q.attempt
           and (t.sandbox_id is null or t.sandbox_id = q.sandbox_id or j.searched)
        returning t.* into o;
        answer := jsonb_build_object('recorded', found);
        if found then
            update {schema}.sandbox_operations t
               set sandbox_id = q.sandbox_id,
                   routing_domain = coalesce(q.routing_domain, t.routing_domain)
             where t.operation_key = o.operation_key;
            insert into {schema}.sandbox_usage (
                run_id, attempt, org_id, provider, sandbox_id, started_at)
            values (o.run_id, o.attempt, o.org_id, o.provider, q.sandbox_id,
                    coalesce(o.bound_at, o.reserved_at))
            on conflict do nothing;
        end if;
        return next;
    end loop;
end $$;

-- Ends the time of the job's sandbox: at the first acceptance of its delete, else now (C55).
create function {schema}.end_use(
    j {schema}.cleanup_jobs, p_sandbox_id text, p_now timestamptz) returns void
language sql as $$
    update {schema}.sandbox_usage u
       set ended_at = greatest(u.started_at, coalesce({schema}.accepted_at(
               j.job_id, j.run_id, j.attempt, j.provider, j.sandbox_id, j.routing_domain), p_now))
     where u.run_id = j.run_id and u.attempt = j.attempt and u.provider = j.provider
       and u.sandbox_id = p_sandbox_id and u.ended_at is null
$$;

create or replace function {schema}.end_operation(j {schema}.cleanup_jobs, p_now timestamptz)
returns void language plpgsql as $$
declare
    o {schema}.sandbox_operations;
begin
    update {schema}.sandbox_operations t set state = 'gone', gone_at = p_now
     where t.operation_key = j.operation_key
    returning * into o;
    perform {schema}.end_use(j, coalesce(j.sandbox_id, o.sandbox_id), p_now);
end $$;

-- Closes jobs, or puts them off. A closed job ends the operation's claim on capacity and the
-- sandbox's time; one that forgets its sandbox ends the time alone and looks for another.
create or replace function {schema}.finish_cleanup(p_requests jsonb)
returns table (answer jsonb) language plpgsql as $$
declare
    q record;
    j {schema}.cleanup_jobs;
    v_now timestamptz := absurd.current_time();
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        job_id bigint, owner text, cleanup_attempt integer, done boolean, delay_ms bigint,
        failed boolean, forgets boolean, routing_domain text)
    loop
        select * into j from {schema}.cleanup_jobs t
         where t.job_id = q.job_id and t.owner = q.owner
           and t.cleanup_attempt = q.cleanup_attempt and t.done_at is null
           for update;
        answer := jsonb_build_object('held', found);
        if found then
            update {schema}.cleanup_jobs t
               set owner = null, lease_expires_at = null,
                   done_at = case when q.done then v_now end,
                   due_at = case when q.done then t.due_at
                                 else v_now + q.delay_ms * interval '1 ms' end,
                   failure_count = t.failure_count + q.failed::integer,
                   sandbox_id = case when q.forgets and t.searched then null
                                     else t.sandbox_id end,
                   routing_domain = coalesce(q.routing_domain, t.routing_domain)
             where t.job_id = j.job_id;
            if q.done then
                perform {schema}.end_operation(j, v_now);
            elsif q.forgets and j.searched then
                perform {schema}.end_use(j, j.sandbox_id, v_now);
                update {schema}.sandbox_operations o set sandbox_id = null
                 where o.operation_key = j.operation_key;
            elsif q.routing_domain is not null then
                update {schema}.sandbox_operations o set routing_domain = q.routing_domain
                 where o.operation_key = j.operation_key;
            end if;
        end if;
        return next;
    end loop;
end $$;
