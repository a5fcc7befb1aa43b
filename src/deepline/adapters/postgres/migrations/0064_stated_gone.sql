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
