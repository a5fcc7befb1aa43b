-- Who stated that a sandbox is gone, where no provider ever proved it (I40).

create or replace function {schema}.sandbox_record_json(o {schema}.sandbox_operations)
returns jsonb language sql stable as $$
    select jsonb_build_object(
        'operation_key', o.operation_key, 'provider', o.provider, 'name', o.name,
        'sandbox_id', o.sandbox_id, 'routing_domain', o.routing_domain, 'org_id', o.org_id,
        'run_id', o.run_id, 'attempt', o.attempt, 'state', {schema}.operation_state(o),
        'run_status', (select r.status from {schema}.runs r where r.run_id = o.run_id),
        'in_use', {schema}.operation_in_use(o),
        'reserved_at', {schema}.iso(o.reserved_at), 'gone_at', {schema}.iso(o.gone_at),
        'stated', (
            select jsonb_build_object('by', e.fields ->> 'by', 'why', e.fields ->> 'why',
                                      'at', {schema}.iso(e.at))
              from {schema}.cleanup_jobs j
              join {schema}.cleanup_events e on e.job_id = j.job_id
             where j.operation_key = o.operation_key and j.done_at is not null
               and e.kind = 'provider_absence_stated'
             order by e.event_id desc limit 1))
        || coalesce((
            select jsonb_build_object(
                       'owed_since', {schema}.iso(j.created_at), 'due_at', {schema}.iso(j.due_at),
                       'failure_count', j.failure_count,
                       'last_event', (
                           select e.kind from {schema}.cleanup_events e
                            where e.job_id = j.job_id order by e.event_id desc limit 1))
              from {schema}.cleanup_jobs j
             where j.operation_key = o.operation_key and j.done_at is null), '{}')
$$;

-- Writes down the sandbox of an attempt. If its fence is lost the sandbox is owed a cleanup in
-- the same commit, even where an earlier search for it by name had found nothing (C64, I50). What
-- the choice of its provider should be told of, `why`, is written down with the first bind.
create or replace function {schema}.bind_sandboxes(p_requests jsonb) returns table (answer jsonb)
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
        sandbox_id text, routing_domain text, suspension jsonb, why jsonb)
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
            if jsonb_typeof(q.why) = 'object' and exists (
                    select from {schema}.attempts a
                     where a.run_id = q.run_id and a.attempt = q.attempt
                       and a.suspension is null) then
                perform {schema}.note(q.run_id, q.attempt, q.why, false);
            end if;
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
