-- Letting go of receipts is best effort when a run ends. Here it is made up for: with its terminal
-- fact in the ledger, a run holds none any more (C28).

-- Facts up to a place are in the ledger. With the created fact the run is acknowledged, and its
-- engine run, if it was let through already, is due in the same commit (C13, C26.7).
create or replace function {schema}.facts_delivered(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_held integer[] := {schema}.end_fact_leases(p_requests);
    v_acknowledged text[];
    v_told text[];
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
    select (select array_agg(a.run_id order by a.run_id) from acknowledged a),
           (select array_agg(d.run_id order by d.run_id) from delivered d
             where d.kind in ('run.completed', 'run.failed', 'run.cancelled'))
      into v_acknowledged, v_told;
    perform {schema}.wake(r.lane, r.task_id)
       from {schema}.runs r
      where r.run_id = any (v_acknowledged)
        and r.admitted_at is not null and r.terminal_at is null;
    -- Their rows are locked in order first, as by everybody who writes receipts.
    perform from {schema}.runs r where r.run_id = any (v_told) order by r.run_id for update;
    update {schema}.receipts t set state = 'released', updated_at = v_now
     where t.run_id = any (v_told) and t.state = 'leased';
    return query
        select jsonb_build_object('held', n = any (v_held))
          from generate_series(1, jsonb_array_length(p_requests)) n order by n;
end $$;
