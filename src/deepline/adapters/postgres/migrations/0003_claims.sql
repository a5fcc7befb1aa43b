-- Claiming work: admission, claims, and what preparing a run finds (C12, C13, C14, Q31, Q38).

-- Lets as many queued runs of the lane become due as a claim has room for, fair by organisation:
-- lowest (runs in flight of the organisation + position within it) first, then age (Q38). What is
-- due already goes first, so resumed and deferred runs do not stand behind a fresh backlog.
create function {schema}.admit(p_lane text, p_quantity integer, p_org_limit integer) returns void
language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_room integer;
    v_admitted uuid[];
begin
    if not exists (
        select from {schema}.runs r
         where r.lane = p_lane and r.status = 'queued' and r.admitted_at is null)
    then
        return;
    end if;
    execute format(
        'select $2 - count(*) from (
             select from absurd.%I
              where state in (''pending'', ''sleeping'') and available_at <= $1 limit $2) due',
        'r_' || p_lane)
    into v_room using v_now, p_quantity;
    if v_room <= 0 then
        return;
    end if;
    -- One admission of a lane at a time, else two could both fill the last place of a limit.
    perform pg_advisory_xact_lock(hashtextextended('deepline.admit.{schema}.' || p_lane, 0));
    with recursive orgs(org_id) as (
        (select r.org_id from {schema}.runs r
          where r.lane = p_lane and r.status = 'queued' and r.admitted_at is null
          order by r.org_id limit 1)
        union all
        select (select r.org_id from {schema}.runs r
                 where r.lane = p_lane and r.status = 'queued' and r.admitted_at is null
                   and r.org_id > o.org_id
                 order by r.org_id limit 1)
          from orgs o where o.org_id is not null),
    ranked as (
        select c.run_id, c.created_at, f.in_flight + c.place as rank
          from orgs o
         cross join lateral (
             select count(*) as in_flight from (
                 select from {schema}.runs r
                  where r.lane = p_lane and r.org_id = o.org_id
                    and r.admitted_at is not null and r.terminal_at is null
                  limit p_org_limit) held) f
         cross join lateral (
             select n.run_id, n.created_at,
                    row_number() over (order by n.created_at, n.run_id) as place
               from (select r.run_id, r.created_at from {schema}.runs r
                      where r.lane = p_lane and r.org_id = o.org_id
                        and r.status = 'queued' and r.admitted_at is null
                      order by r.created_at, r.run_id
                      limit greatest(least(v_room, p_org_limit - f.in_flight), 0)) n) c
         where o.org_id is not null
         order by rank, c.created_at, c.run_id
         limit v_room),
    free as (
        -- By their ids alone: the index of the queued ones would be read as a whole for this.
        select r.run_id, r.status, r.admitted_at from {schema}.runs r
         where r.run_id = any (array(select k.run_id from ranked k))
           for update skip locked),
    admitted as (
        update {schema}.runs r set admitted_at = v_now from free
         where r.run_id = free.run_id and free.status = 'queued' and free.admitted_at is null
        returning r.engine_run_id)
    select array_agg(a.engine_run_id) into v_admitted from admitted a;
    -- The state as an expression, so that no index of states is used: the ids find the rows.
    execute format(
        'update absurd.%I set available_at = $2
          where run_id = any ($1) and state || '''' = ''pending'' and available_at = ''infinity''',
        'r_' || p_lane)
    using v_admitted, v_now;
end $$;

-- What to do about attempts that run without their claim. If a runner may have started, the
-- attempt goes on, waiting, under a lease its old holder does not know. Otherwise it is given up.
create function {schema}.take_over(p_run_ids text[], p_claims jsonb, p_owner text) returns void
language plpgsql as $$
declare
    v_lost record;
begin
    for v_lost in
        select a.run_id, a.attempt, a.worker,
               a.suspension is not null or a.runner_terminal is not null as may_have_started
          from jsonb_to_recordset(p_claims) as c(
                   run_id text, engine_attempt integer, max_engine_attempts integer)
         cross join lateral (
             select r.* from {schema}.runs r where r.run_id = c.run_id offset 0) r
         cross join lateral (
             select a.* from {schema}.attempts a
              where a.run_id = r.run_id and a.attempt = r.attempt offset 0) a
         where c.run_id = any (p_run_ids) and r.terminal_at is null and a.status = 'running'
           and exists (select from {schema}.launches l where l.run_id = c.run_id)
           and (a.claim_owner is distinct from p_owner
                or a.suspension is not null or a.runner_terminal is not null)
           and c.engine_attempt <= coalesce(c.max_engine_attempts, c.engine_attempt)
    loop
        if v_lost.may_have_started then
            update {schema}.attempts a
               set status = 'waiting', adopted = true, lease_token = gen_random_uuid()::text,
                   updated_at = clock_timestamp()
             where a.run_id = v_lost.run_id and a.attempt = v_lost.attempt;
            update {schema}.runs r set status = 'waiting' where r.run_id = v_lost.run_id;
            perform {schema}.note(v_lost.run_id, v_lost.attempt, jsonb_build_object(
                'rule', 'claim.taken_over', 'evidence',
                jsonb_build_object('lostWorker', v_lost.worker)), false);
        else
            perform {schema}.give_up(
                v_lost.run_id, v_lost.attempt, 'lease_lost', null, jsonb_build_object(
                'rule', 'claim.lease_lost', 'evidence',
                jsonb_build_object('lostWorker', v_lost.worker)));
        end if;
    end loop;
end $$;

-- Retires an attempt and queues its run again, still admitted. Its sandbox is owed a cleanup in
-- the same commit (I13). Only an outage hands its start on (Q31).
create function {schema}.give_up(
    p_run_id text, p_attempt integer, p_reason text, p_outage_started_at timestamptz, p_why jsonb)
returns void language plpgsql as $$
begin
    update {schema}.attempts a
       set status = 'retired', retired_reason = p_reason, claim_owner = null,
           updated_at = clock_timestamp()
     where a.run_id = p_run_id and a.attempt = p_attempt;
    update {schema}.runs r
       set status = 'queued', outage_started_at = p_outage_started_at
     where r.run_id = p_run_id;
    perform {schema}.owe_cleanup(p_run_id, p_attempt);
    perform {schema}.note(p_run_id, p_attempt, p_why, false);
end $$;

-- Prepares claimed runs: what is found is answered by `kind`, in the order of the claims. Without
-- `p_wait` a run whose row is locked is answered `busy`; with it, in a transaction of its own, the
-- claims are checked first and `lost` is an answer too.
create function {schema}.prepare(
    p_lane text, p_owner text, p_worker text, p_placement_keys text[], p_claims jsonb,
    p_wait boolean)
returns table (answer jsonb) language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_run_ids text[];
    v_lost text[] := '{}';
begin
    if p_wait then
        perform {schema}.lock_runs(p_claims);
        select coalesce(array_agg(c ->> 'run_id') filter (where h.held), '{}'),
               coalesce(array_agg(c ->> 'run_id') filter (where not h.held), '{}')
          into v_run_ids, v_lost
          from jsonb_array_elements(p_claims) c
         cross join lateral {schema}.claim_is_held(
             p_lane, (c ->> 'engine_run_id')::uuid, p_owner) as h(held);
    else
        select coalesce(array_agg(f.run_id), '{}') into v_run_ids from (
            select l.run_id from jsonb_array_elements(p_claims) c
             cross join lateral (
                 select r.run_id from {schema}.runs r where r.run_id = c ->> 'run_id'
                    for update skip locked) l) f;
    end if;
    perform 1 from (
        select r.run_id, r.attempt from unnest(v_run_ids) as c(run_id)
         cross join lateral (
             select r.run_id, r.attempt from {schema}.runs r where r.run_id = c.run_id offset 0) r
         order by 1, 2) r
    cross join lateral (
        select from {schema}.attempts a
         where a.run_id = r.run_id and a.attempt = r.attempt for update) locked;
    perform {schema}.take_over(v_run_ids, p_claims, p_owner);
    return query
    with found as (
        select c.*, r.attempt, r.outage_started_at, r.status, l.launch, a as newest,
               case
                   when c.run_id = any (v_lost) then 'lost'
                   when r.run_id is null then 'missing'
                   when not r.run_id = any (v_run_ids) then 'busy'
                   when l.run_id is null then 'launch_missing'
                   when r.terminal_at is not null then 'terminal'
                   when c.engine_attempt > c.max_engine_attempts then 'exhausted'
                   when a.status = 'waiting' then 'wake'
                   when a.status = 'running' then 'prepared_before'
                   when r.created_projected_at is null then 'created_pending'
                   when not r.placement_key = any (p_placement_keys) then 'misplaced'
                   else 'fresh'
               end as kind
          from rows from (jsonb_to_recordset(p_claims) as (
                   run_id text, task_id uuid, engine_run_id uuid, engine_attempt integer,
                   max_engine_attempts integer, claimed_at text))
               with ordinality as c(
                   run_id, task_id, engine_run_id, engine_attempt, max_engine_attempts,
                   claimed_at, n)
          left join {schema}.runs r on r.run_id = c.run_id
          left join {schema}.launches l on l.run_id = r.run_id
          left join {schema}.attempts a on a.run_id = r.run_id and a.attempt = r.attempt),
    begun as (
        insert into {schema}.attempts as a (
            run_id, attempt, lease_token, status, engine_attempt, worker, claim_owner,
            outage_started_at, checkpoint, created_at, updated_at)
        select f.run_id, f.attempt + 1, gen_random_uuid()::text, 'running', f.engine_attempt,
               p_worker, p_owner, f.outage_started_at,
               -- What a play was answered before it was resumed goes on with it; a proof does not.
               (f.newest).checkpoint - 'detachedRunnerSilenceConfirmation', v_now, v_now
          from found f where f.kind = 'fresh'
        returning a),
    running as (
        update {schema}.runs r
           set status = 'running', attempt = r.attempt + 1, engine_run_id = f.engine_run_id
          from found f where f.kind = 'fresh' and r.run_id = f.run_id),
    woken as (
        update {schema}.attempts a set claim_owner = p_owner
          from found f
         where f.kind = 'wake' and a.run_id = f.run_id and a.attempt = f.attempt)
    select jsonb_build_object(
        'kind', f.kind, 'launch', f.launch, 'status', f.status,
        'adopted', coalesce((f.newest).adopted, false),
        'attempt', case when f.kind = 'fresh' then t.begun -> f.run_id
                        when (f.newest).run_id is not null then {schema}.attempt_json(f.newest) end,
        'claim', jsonb_build_object(
            'run_id', f.run_id, 'lane', p_lane, 'task_id', f.task_id, 'owner', p_owner,
            'engine_run_id', f.engine_run_id, 'engine_attempt', f.engine_attempt,
            'max_engine_attempts', f.max_engine_attempts, 'claimed_at', f.claimed_at))
      from found f
     cross join (
         select jsonb_object_agg((b.a).run_id, {schema}.attempt_json(b.a)) as begun
           from begun b) t
     order by f.n;
end $$;

-- Admits, claims and prepares in one step. A lane without a queue has nothing to claim.
create function {schema}.claim(
    p_lane text, p_owner text, p_worker text, p_lease_s integer, p_quantity integer,
    p_org_limit integer, p_placement_keys text[])
returns table (answer jsonb) language plpgsql as $$
declare
    v_claims jsonb;
begin
    if to_regclass(format('absurd.%I', 'r_' || p_lane)) is null then
        return;
    end if;
    perform {schema}.admit(p_lane, p_quantity, p_org_limit);
    select jsonb_agg(jsonb_build_object(
        'run_id', coalesce(c.params ->> 'run_id', ''), 'task_id', c.task_id,
        'engine_run_id', c.run_id, 'engine_attempt', c.attempt,
        'max_engine_attempts', c.params -> 'max_engine_attempts',
        'claimed_at', {schema}.iso(absurd.current_time())))
      into v_claims
      from absurd.claim_task(p_lane, p_owner, p_lease_s, p_quantity) c;
    update {schema}.lanes l set last_claim_at = absurd.current_time()
     where l.lane = (
         select s.lane from {schema}.lanes s
          where s.lane = p_lane
            and coalesce(s.last_claim_at, '-infinity') < absurd.current_time() - interval '30 s'
            for update skip locked);
    if v_claims is not null then
        return query select * from {schema}.prepare(
            p_lane, p_owner, p_worker, p_placement_keys, v_claims, false);
    end if;
end $$;
