-- Reading runs and lanes, for people and for operators (C08, C56, C57).

create function {schema}.run_json(r {schema}.runs) returns jsonb language sql stable as $$
    select jsonb_build_object(
        'run_id', r.run_id, 'org_id', r.org_id, 'play_name', r.play_name, 'status', r.status,
        'lane', r.lane, 'release_id', r.release_id, 'task_id', r.task_id, 'attempt', r.attempt,
        'created_at', {schema}.iso(r.created_at),
        'created_projected_at', {schema}.iso(r.created_projected_at),
        'cancel_requested_at', {schema}.iso(r.cancel_requested_at),
        'terminal_at', {schema}.iso(r.terminal_at), 'why', r.why)
$$;

-- The engine's side of a run; null when its lane or its task is not there (any more). The engine
-- keeps "never" as infinity, which is told as no instant.
create function {schema}.engine_json(r {schema}.runs) returns jsonb language plpgsql stable as $$
declare
    v_engine jsonb;
begin
    if not {schema}.task_exists(r.lane, r.task_id) then
        return null;
    end if;
    execute format(
        'select jsonb_build_object(
             ''state'', t.state, ''attempt'', e.attempt, ''claimed_by'', e.claimed_by,
             ''due_at'', case when e.available_at < ''infinity''
                              then {schema}.iso(e.available_at) end,
             ''claim_expires_at'', {schema}.iso(e.claim_expires_at))
           from absurd.%1$I t
           left join lateral (
               select * from absurd.%2$I n where n.task_id = t.task_id
                order by n.attempt desc limit 1) e on true
          where t.task_id = $1', 't_' || r.lane, 'r_' || r.lane)
    into v_engine using r.task_id;
    return v_engine;
end $$;

create function {schema}.attempts_json(p_run_id text, p_limit integer) returns jsonb
language sql stable as $$
    select jsonb_agg(jsonb_build_object(
        'attempt', a.attempt, 'status', a.status, 'worker', a.worker,
        'engine_attempt', a.engine_attempt, 'created_at', {schema}.iso(a.created_at),
        'updated_at', {schema}.iso(a.updated_at), 'heartbeat_at', {schema}.iso(a.heartbeat_at),
        'heartbeats', a.heartbeat_seq, 'sandbox_provider', o.provider, 'sandbox_id', o.sandbox_id,
        'runner_terminal_status', a.runner_terminal -> 'status',
        'runner_terminal_at', {schema}.iso(a.runner_terminal_at),
        'ended_reason', case when a.status = 'retired' then a.retired_reason
                             when a.status not in ('running', 'waiting') then a.status end)
        order by a.attempt)
      from (select * from {schema}.attempts t where t.run_id = p_run_id
             order by t.attempt desc limit p_limit) a
      left join lateral (
          select s.provider, s.sandbox_id from {schema}.sandbox_operations s
           where s.run_id = a.run_id and s.attempt = a.attempt and s.sandbox_id is not null
           order by s.reserved_at desc limit 1) o on true
$$;

create function {schema}.decisions_json(p_run_id text, p_limit integer) returns jsonb
language sql stable as $$
    select jsonb_agg(jsonb_build_object(
        'at', {schema}.iso(d.at), 'attempt', d.attempt, 'rule', d.rule, 'evidence', d.evidence)
        order by d.decision_id)
      from (select * from {schema}.decisions t where t.run_id = p_run_id
             order by t.decision_id desc limit p_limit) d
$$;

create function {schema}.facts_json(p_run_id text, p_limit integer) returns jsonb
language sql stable as $$
    select jsonb_agg(jsonb_build_object(
        'seq', o.seq, 'event_id', o.event_id, 'kind', o.kind, 'due_at', {schema}.iso(o.due_at),
        'attempts', o.attempts, 'delivered_at', {schema}.iso(o.delivered_at),
        'dead_at', {schema}.iso(o.dead_at), 'last_error', o.last_error)
        order by o.seq)
      from (select * from {schema}.outbox t where t.run_id = p_run_id
             order by t.seq desc limit p_limit) o
$$;

create function {schema}.cleanup_json(p_run_id text, p_limit integer) returns jsonb
language sql stable as $$
    select jsonb_agg(jsonb_build_object(
        'attempt', j.attempt, 'provider', j.provider, 'sandbox_id', j.sandbox_id,
        'sandbox_name', j.sandbox_name, 'cleanup_attempt', j.cleanup_attempt,
        'failure_count', j.failure_count, 'due_at', {schema}.iso(j.due_at),
        'accepted_at', {schema}.iso({schema}.accepted_at(
            j.job_id, j.run_id, j.attempt, j.provider, j.sandbox_id, j.routing_domain)),
        'done_at', {schema}.iso(j.done_at))
        order by j.job_id)
      from (select * from {schema}.cleanup_jobs t where t.run_id = p_run_id
             order by t.job_id desc limit p_limit) j
$$;

-- A run's place in the queue: behind the runs of its organisation that were submitted before it.
-- Organisations take turns, so the others' backlogs don't count.
create function {schema}.queue_position(r {schema}.runs) returns bigint
language sql stable as $$
    select case when r.status = 'queued' and r.admitted_at is null then 1 + (
        select count(*) from {schema}.runs o
         where o.lane = r.lane and o.org_id = r.org_id
           and o.status = 'queued' and o.admitted_at is null
           and (o.created_at, o.run_id) < (r.created_at, r.run_id)) end
$$;

create function {schema}.evidence(p_run_id text, p_org_id text, p_limit integer)
returns table (answer jsonb) language sql stable as $$
    select jsonb_build_object(
        'run', {schema}.run_json(r), 'read_at', {schema}.iso(absurd.current_time()),
        'attempts', {schema}.attempts_json(r.run_id, p_limit),
        'decisions', {schema}.decisions_json(r.run_id, p_limit),
        'engine', {schema}.engine_json(r),
        'facts', {schema}.facts_json(r.run_id, p_limit),
        'cleanup', {schema}.cleanup_json(r.run_id, p_limit),
        'lane_last_claim_at', {schema}.iso(l.last_claim_at),
        'queue_position', {schema}.queue_position(r))
      from {schema}.runs r left join {schema}.lanes l on l.lane = r.lane
     where r.run_id = p_run_id and (p_org_id is null or r.org_id = p_org_id)
$$;

-- Every lane with how many of its tasks are not over. The engine keeps one open run a task.
create function {schema}.lane_states() returns table (
    lane text, release_id text, last_claim_at timestamptz, open_tasks bigint)
language plpgsql stable as $$
begin
    for lane, release_id, last_claim_at in
        select l.lane, l.release_id, l.last_claim_at from {schema}.lanes l
         order by l.created_at, l.lane
    loop
        open_tasks := 0;
        if to_regclass(format('absurd.%I', 'r_' || lane)) is not null then
            execute format(
                'select count(*) from absurd.%I
                  where state in (''pending'', ''running'', ''sleeping'')', 'r_' || lane)
            into open_tasks;
        end if;
        return next;
    end loop;
end $$;

create function {schema}.add_api_key(
    p_key_hash text, p_org_id text, p_label text, p_operator boolean)
returns table (
    key_id text, org_id text, label text, operator boolean, created_at timestamptz,
    revoked_at timestamptz)
language sql as $$
    insert into {schema}.api_keys as k (key_id, key_hash, org_id, label, operator, created_at)
    values (replace(gen_random_uuid()::text, '-', ''), p_key_hash, p_org_id, p_label, p_operator,
            absurd.current_time())
    on conflict (key_hash) do nothing
    returning k.key_id, k.org_id, k.label, k.operator, k.created_at, k.revoked_at
$$;

create function {schema}.revoke_api_key(p_key_id text) returns boolean language sql as $$
    with revoked as (
        update {schema}.api_keys k
           set revoked_at = coalesce(k.revoked_at, absurd.current_time())
         where k.key_id = p_key_id
        returning 1)
    select exists (select from revoked)
$$;
