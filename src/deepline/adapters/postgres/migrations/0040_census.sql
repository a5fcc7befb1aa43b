-- What a deployment has to do and what it leaves undone, in figures for operators (C58).

create function {schema}.pile(p_count bigint, p_oldest timestamptz, p_now timestamptz)
returns jsonb language sql immutable parallel safe as $$
    select jsonb_build_object(
        'count', p_count,
        'oldest_s', greatest(0, coalesce(extract(epoch from p_now - p_oldest), 0)))
$$;

-- One lane's open runs by state, and what is wrong between them and their engine tasks.
create function {schema}.lane_figures(p_lane text, p_now timestamptz) returns jsonb
language plpgsql stable as $$
declare
    v_figures jsonb;
begin
    execute format($query$
        with open_runs as (
            select r.status, r.created_at, r.admitted_at, r.task_id from {schema}.runs r
             where r.lane = $1 and r.status = 'queued' and r.admitted_at is null
            union all
            select r.status, r.created_at, r.admitted_at, r.task_id from {schema}.runs r
             where r.lane = $1 and r.admitted_at is not null and r.terminal_at is null),
        claims as (
            select e.task_id, e.claim_expires_at <= $2 as ended from absurd.%1$I e
             where e.state = 'running')
        select jsonb_build_object(
            'queued', {schema}.pile(
                count(*) filter (where o.status = 'queued'),
                min(o.created_at) filter (where o.status = 'queued'), $2),
            'running', {schema}.pile(
                count(*) filter (where o.status = 'running'),
                min(o.admitted_at) filter (where o.status = 'running'), $2),
            'waiting', {schema}.pile(
                count(*) filter (where o.status = 'waiting'),
                min(o.admitted_at) filter (where o.status = 'waiting'), $2),
            'stale_leases', (select count(*) from claims c where c.ended),
            'without_lease', count(*) filter (
                where o.status = 'running' and coalesce(c.ended, true)),
            'given_up', count(*) filter (where t.state in ('failed', 'cancelled')))
          from open_runs o
          left join claims c on c.task_id = o.task_id
          left join absurd.%2$I t on t.task_id = o.task_id
    $query$, 'r_' || p_lane, 't_' || p_lane)
    into v_figures using p_lane, p_now;
    return v_figures;
end $$;

-- Everything at once. `p_silent_s` is when a heart counts as silent whose suspension says nothing.
create function {schema}.census(p_silent_s double precision, p_stuck_after integer)
returns jsonb language plpgsql stable as $$
declare
    v_now timestamptz := absurd.current_time();
    v_lanes jsonb;
begin
    select coalesce(jsonb_agg({schema}.lane_figures(l.lane, v_now) || jsonb_build_object(
               'lane', l.lane,
               'claimed_s_ago', extract(epoch from v_now - l.last_claim_at)) order by l.created_at),
               '[]')
      into v_lanes from {schema}.lanes l
     where to_regclass(format('absurd.%I', 'r_' || l.lane)) is not null;
    return jsonb_build_object(
        'taken_at', {schema}.iso(v_now),
        'lanes', v_lanes,
        'unsettled', (
            select {schema}.pile(count(*), min(a.runner_terminal_at), v_now)
              from {schema}.attempts a join {schema}.runs r on r.run_id = a.run_id
             where a.status in ('running', 'waiting') and a.runner_terminal is not null
               and r.attempt = a.attempt and r.terminal_at is null),
        'detached', (
            select {schema}.pile(count(*), min(coalesce(a.heartbeat_at, a.updated_at)), v_now)
                   || jsonb_build_object('silent', count(*) filter (
                       where {schema}.runner_stale_at(a, p_silent_s * 1000) <= v_now))
              from {schema}.attempts a
             where a.status = 'waiting' and a.runner_terminal is null
               and a.suspension ->> 'kind' = 'detached_runner'),
        'outbox', (
            select {schema}.pile(count(*), min(o.occurred_at), v_now) from {schema}.outbox o
             where o.delivered_at is null and o.dead_at is null),
        'outbox_dead', (select count(*) from {schema}.outbox o where o.dead_at is not null),
        'cleanup', (
            select {schema}.pile(count(*), min(j.created_at), v_now) || jsonb_build_object(
                       'stuck', count(*) filter (where j.failure_count >= p_stuck_after))
              from {schema}.cleanup_jobs j where j.done_at is null),
        'sandboxes', (
            select coalesce(jsonb_object_agg(s.provider, s.held), '{}')
              from (select o.provider, count(*) as held from {schema}.sandbox_operations o
                     where o.state in ('reserved', 'bound', 'deleting')
                     group by o.provider) s));
end $$;
