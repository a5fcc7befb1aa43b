-- Delivering facts to the run ledger: in order, by one dispatcher a run (C25, C26, Q34).
--
-- A lease is taken and answered under the lock of the run's row. Only a run whose next fact is due
-- is leased, and with it as many facts as are due behind that one: a fact that was put off, or is
-- a dead letter, holds up all that follow it.

-- Leases those of the runs that have something due and no dispatcher; the caller holds the locks
-- of their rows. Answers in the order of the runs. A run without a launch has no address to
-- deliver to.
create function {schema}.lease_facts(
    p_run_ids text[], p_owner text, p_lease interval, p_facts_max integer)
returns table (run_id text, answer jsonb) language plpgsql as $$
#variable_conflict use_column
declare
    v_now timestamptz := absurd.current_time();
    v_leased text[];
begin
    with next_facts as (
        select distinct on (o.run_id) o.run_id, o.due_at, o.dead_at
          from {schema}.outbox o
         where o.run_id = any (p_run_ids) and o.delivered_at is null
         order by o.run_id, o.seq),
    taken as (
        insert into {schema}.outbox_leases as l (run_id, owner, expires_at)
        select f.run_id, p_owner, v_now + p_lease
          from next_facts f join {schema}.launches a on a.run_id = f.run_id
         where f.dead_at is null and f.due_at <= v_now
        on conflict (run_id) do update
           set owner = excluded.owner, expires_at = excluded.expires_at
         where l.expires_at <= v_now
        returning run_id)
    select array_agg(t.run_id) into v_leased from taken t;
    return query
    select r.run_id, jsonb_build_object(
               'run_id', r.run_id, 'launch', a.launch, 'facts', f.facts)
      from unnest(p_run_ids) with ordinality as r(run_id, n)
      join {schema}.launches a on a.run_id = r.run_id
     cross join lateral (
         select jsonb_agg(jsonb_build_object(
                    'seq', d.seq, 'event_id', d.event_id, 'kind', d.kind, 'payload', d.payload,
                    'occurred_at', {schema}.iso(d.occurred_at), 'attempts', d.attempts)
                order by d.seq) as facts
           from (select o.* from {schema}.outbox o
                  where o.run_id = r.run_id and o.delivered_at is null
                    and o.seq < coalesce((
                        select min(b.seq) from {schema}.outbox b
                         where b.run_id = r.run_id and b.delivered_at is null
                           and (b.dead_at is not null or b.due_at > v_now)), 2147483647)
                  order by o.seq limit p_facts_max) d) f
     where r.run_id = any (v_leased)
     order by r.n;
end $$;

-- Leases up to so many runs on any lane, the one whose fact is due longest first. Runs that
-- somebody works on at this moment are passed over, so that dispatchers never wait for each other.
create function {schema}.lease_due_facts(
    p_owner text, p_lease interval, p_runs_max integer, p_facts_max integer)
returns table (answer jsonb) language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_run_ids text[];
begin
    select array_agg(due.run_id) into v_run_ids from (
        select r.run_id
          from {schema}.outbox o join {schema}.runs r on r.run_id = o.run_id
         where o.delivered_at is null and o.dead_at is null and o.due_at <= v_now
           and not exists (
               select from {schema}.outbox b
                where b.run_id = o.run_id and b.seq < o.seq and b.delivered_at is null)
           and not exists (
               select from {schema}.outbox_leases l
                where l.run_id = o.run_id and l.expires_at > v_now)
         order by o.due_at, o.run_id
         limit p_runs_max
           for update of r skip locked) due;
    return query
    select f.answer from {schema}.lease_facts(v_run_ids, p_owner, p_lease, p_facts_max) f;
end $$;

create function {schema}.lease_facts_of_runs(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
begin
    perform {schema}.lock_runs(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (
        run_id text, owner text, lease_ms bigint, facts_max integer)
    loop
        select f.answer into answer from {schema}.lease_facts(
            array[q.run_id], q.owner, q.lease_ms * interval '1 ms', q.facts_max) f;
        answer := coalesce(answer, 'null');
        return next;
    end loop;
end $$;

-- The requests whose lease still is their dispatcher's; it is given back with the answer.
create function {schema}.end_fact_leases(p_requests jsonb) returns integer[]
language plpgsql as $$
declare
    v_held integer[];
begin
    perform {schema}.lock_runs(p_requests);
    with held as materialized (
        select q.n, l.run_id
          from rows from (jsonb_to_recordset(p_requests) as (run_id text, owner text))
               with ordinality as q(run_id, owner, n)
          join {schema}.outbox_leases l on l.run_id = q.run_id and l.owner = q.owner),
    ended as (
        delete from {schema}.outbox_leases l using held h where l.run_id = h.run_id)
    select coalesce(array_agg(h.n), '{}') into v_held from held h;
    return v_held;
end $$;

-- Facts up to a place are in the ledger. With the created fact the run is acknowledged, and its
-- engine run, if it was let through already, is due in the same commit (C13, C26.7).
create function {schema}.facts_delivered(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_held integer[] := {schema}.end_fact_leases(p_requests);
    v_acknowledged text[];
begin
    with held as (
        select q.run_id, max(q.through_seq) as through_seq
          from rows from (jsonb_to_recordset(p_requests) as (run_id text, through_seq integer))
               with ordinality as q(run_id, through_seq, n)
         where q.n = any (v_held)
         group by q.run_id),
    delivered as (
        update {schema}.outbox o set delivered_at = v_now
          from held h
         where o.run_id = h.run_id and o.seq <= h.through_seq
           and o.delivered_at is null and o.dead_at is null
        returning o.run_id, o.kind),
    acknowledged as (
        update {schema}.runs r set created_projected_at = v_now
          from delivered d
         where d.kind = 'run.created' and r.run_id = d.run_id and r.created_projected_at is null
        returning r.run_id)
    select array_agg(a.run_id order by a.run_id) into v_acknowledged from acknowledged a;
    perform {schema}.wake(r.lane, r.task_id)
       from {schema}.runs r
      where r.run_id = any (v_acknowledged)
        and r.admitted_at is not null and r.terminal_at is null;
    return query
        select jsonb_build_object('held', n = any (v_held))
          from generate_series(1, jsonb_array_length(p_requests)) n order by n;
end $$;

-- A fact was not taken: it is tried again after a while, or set aside as a dead letter.
create function {schema}.facts_failed(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_held integer[] := {schema}.end_fact_leases(p_requests);
begin
    update {schema}.outbox o
       set attempts = o.attempts + 1, last_error = q.error,
           due_at = v_now + q.delay_ms * interval '1 ms',
           dead_at = case when q.dead then v_now end
      from rows from (jsonb_to_recordset(p_requests) as (
               run_id text, seq integer, error text, delay_ms bigint, dead boolean))
           with ordinality as q(run_id, seq, error, delay_ms, dead, n)
     where q.n = any (v_held) and o.run_id = q.run_id and o.seq = q.seq
       and o.delivered_at is null and o.dead_at is null;
    return query
        select jsonb_build_object('held', n = any (v_held))
          from generate_series(1, jsonb_array_length(p_requests)) n order by n;
end $$;
