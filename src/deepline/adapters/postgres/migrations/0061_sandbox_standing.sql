-- What the store knows of sandboxes that a provider lists, and whose they are (F66, C50).

-- The mark of this store, on every sandbox it ever had made. A copy of the database has the same
-- one: give it another before it runs beside the original.
create table {schema}.store_mark (
    only_one boolean primary key default true check (only_one),
    mark text not null default 'st-' || replace(gen_random_uuid()::text, '-', '')
);
insert into {schema}.store_mark default values;

create or replace function {schema}.reservation_json(
    o {schema}.sandbox_operations, p_now timestamptz, p_state text)
returns jsonb language sql stable as $$
    select jsonb_build_object(
        'kind', 'reserved', 'state', p_state, 'operation_key', o.operation_key, 'token', o.token,
        'name', o.name, 'provider', o.provider, 'org_id', o.org_id, 'run_id', o.run_id,
        'attempt', o.attempt, 'mark', (select m.mark from {schema}.store_mark m),
        'age_ms', greatest(floor(extract(epoch from p_now - o.reserved_at) * 1000), 0)::bigint)
$$;

create index cleanup_jobs_open_sandbox on {schema}.cleanup_jobs (provider, sandbox_id)
    where done_at is null;

-- How the operation stands; one whose cleanup is owed is being deleted, whatever it was before.
create function {schema}.operation_state(o {schema}.sandbox_operations) returns text
language sql stable as $$
    select case when o.state in ('reserved', 'bound') and exists (
                    select from {schema}.cleanup_jobs j
                     where j.operation_key = o.operation_key and j.done_at is null)
                then 'deleting' else o.state end
$$;

-- Does an attempt live that may have this operation's sandbox, or be about to?
create function {schema}.operation_in_use(o {schema}.sandbox_operations) returns boolean
language sql stable as $$
    select {schema}.operation_state(o) in ('reserved', 'bound') and exists (
        select from {schema}.runs r
          join {schema}.attempts a on a.run_id = r.run_id and a.attempt = o.attempt
         where r.run_id = o.run_id and r.terminal_at is null and a.status in ('running', 'waiting'))
$$;

create function {schema}.sandbox_standing(
    p_provider text, p_sandbox_id text, p_name text, p_token text, p_run_id text)
returns table (operation_key text, use text, ended_at timestamptz)
language plpgsql stable as $$
declare
    o {schema}.sandbox_operations;
    v_run {schema}.runs;
begin
    select * into o from {schema}.sandbox_operations t
     where t.token = p_token and t.provider = p_provider;
    select * into v_run from {schema}.runs r where r.run_id = coalesce(o.run_id, p_run_id);
    operation_key := o.operation_key;
    use := case
        when o.operation_key is not null
             and (o.name <> p_name or o.run_id <> coalesce(p_run_id, o.run_id))
        then 'differs'
        when exists (
            select from {schema}.cleanup_jobs j
             where j.done_at is null and j.provider = p_provider
               and (j.sandbox_id = p_sandbox_id or j.operation_key = o.operation_key))
        then 'being_deleted'
        when o.operation_key is null and v_run.run_id is not null and v_run.terminal_at is null
             or {schema}.operation_in_use(o)
        then 'in_use'
        when o.operation_key is null then 'unknown'
        else 'ended' end;
    if use = 'ended' then
        ended_at := coalesce(o.gone_at, v_run.terminal_at, o.reserved_at);
    end if;
    return next;
end $$;

create function {schema}.ms_since(p_at timestamptz) returns bigint language sql stable as $$
    select greatest(floor(extract(epoch from absurd.current_time() - p_at) * 1000), 0)::bigint
$$;

create function {schema}.standing_of(p_sandboxes jsonb) returns table (answer jsonb)
language sql stable as $$
    select jsonb_build_object(
               'use', s.use,
               'age_ms', {schema}.ms_since(q.created_at),
               'ended_ms', {schema}.ms_since(s.ended_at))
      from rows from (jsonb_to_recordset(p_sandboxes) as (
               provider text, sandbox_id text, name text, token text, run_id text,
               created_at timestamptz))
           with ordinality as q(provider, sandbox_id, name, token, run_id, created_at, n)
     cross join lateral {schema}.sandbox_standing(
               q.provider, q.sandbox_id, q.name, q.token, q.run_id) s
     order by q.n
$$;

-- Owes the deletion of sandboxes that are nobody's. One whose operation is over already, or was
-- never known here, gets an operation of its own, of the run's attempt 0.
create function {schema}.owe_orphans(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
    v_now timestamptz := absurd.current_time();
    v_key text;
    o {schema}.sandbox_operations;
    s record;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, provider text, sandbox_id text, name text, token text, routing_domain text)
    loop
        select * into s from {schema}.sandbox_standing(
            q.provider, q.sandbox_id, q.name, q.token, q.run_id);
        select * into o from {schema}.sandbox_operations t where t.operation_key = s.operation_key;
        v_key := case when o.state in ('reserved', 'bound', 'deleting') then o.operation_key
                      else format('orphan:%s:%s', q.provider, q.sandbox_id) end;
        answer := jsonb_build_object('owed', s.use in ('ended', 'unknown') and not exists (
            select from {schema}.sandbox_operations t
             where t.run_id = coalesce(o.run_id, q.run_id, '') and t.attempt = 0
               and t.provider = q.provider and t.operation_key <> v_key
               and t.state in ('reserved', 'bound', 'deleting')));
        if (answer ->> 'owed')::boolean then
            insert into {schema}.sandbox_operations as t (
                operation_key, token, name, provider, org_id, run_id, attempt, state, sandbox_id,
                routing_domain)
            values (v_key, v_key, q.name, q.provider,
                    coalesce(o.org_id, (select r.org_id from {schema}.runs r
                                         where r.run_id = q.run_id), ''),
                    coalesce(o.run_id, q.run_id, ''), 0, 'deleting', q.sandbox_id, q.routing_domain)
            on conflict (operation_key) do update
               set state = 'deleting', gone_at = null,
                   sandbox_id = coalesce(t.sandbox_id, excluded.sandbox_id),
                   routing_domain = coalesce(t.routing_domain, excluded.routing_domain)
            returning * into o;
            insert into {schema}.cleanup_jobs as j (
                run_id, attempt, org_id, provider, operation_key, sandbox_id, sandbox_name,
                operation_token, routing_domain)
            values (o.run_id, o.attempt, o.org_id, o.provider, o.operation_key, q.sandbox_id,
                    o.name, o.token, o.routing_domain)
            on conflict (operation_key) do update
               set sandbox_id = excluded.sandbox_id, done_at = null, due_at = v_now;
        end if;
        return next;
    end loop;
end $$;

create function {schema}.sandbox_record_json(o {schema}.sandbox_operations) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'operation_key', o.operation_key, 'provider', o.provider, 'name', o.name,
        'sandbox_id', o.sandbox_id, 'routing_domain', o.routing_domain, 'org_id', o.org_id,
        'run_id', o.run_id, 'attempt', o.attempt, 'state', {schema}.operation_state(o),
        'run_status', (select r.status from {schema}.runs r where r.run_id = o.run_id),
        'in_use', {schema}.operation_in_use(o),
        'reserved_at', {schema}.iso(o.reserved_at), 'gone_at', {schema}.iso(o.gone_at))
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

create function {schema}.sandbox_records(p_query jsonb) returns table (answer jsonb)
language sql stable as $$
    select {schema}.sandbox_record_json(o)
      from {schema}.sandbox_operations o
     where (p_query ->> 'provider' is null or o.provider = p_query ->> 'provider')
       and (p_query ->> 'org_id' is null or o.org_id = p_query ->> 'org_id')
       and (p_query ->> 'run_id' is null or o.run_id = p_query ->> 'run_id')
       and (p_query ->> 'state' is null or {schema}.operation_state(o) = p_query ->> 'state')
       and (p_query ->> 'named' is null
            or p_query ->> 'named' in (o.sandbox_id, o.name, o.operation_key))
       and ((p_query ->> 'ended')::boolean or o.state in ('reserved', 'bound', 'deleting'))
       and o.operation_key collate "C" > coalesce(p_query ->> 'after', '')
     order by o.operation_key collate "C"
     limit (p_query ->> 'limit')::integer
$$;
