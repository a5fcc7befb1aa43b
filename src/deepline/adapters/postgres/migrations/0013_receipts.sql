-- Receipts of external actions: leased before the action, done after it (C28, I31).

-- One process of a play, named by chance; empty for nobody.
alter table {schema}.receipts add column holder text not null default '';

-- Answers null when the attempt is over.
create function {schema}.lease_receipts(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    v_live integer[];
    q record;
begin
    -- Not shared: who asks for the same receipts in another order waits here and nowhere else.
    perform {schema}.lock_runs(p_requests);
    v_live := {schema}.stay_live(p_requests);
    for q in
        select * from rows from (jsonb_to_recordset(p_requests) as (
                   run_id text, attempt integer, receipt text, holder text, redo boolean))
               with ordinality as c(run_id, attempt, receipt, holder, redo, n)
    loop
        if q.n = any (v_live) then
            insert into {schema}.receipts (
                run_id, receipt_key, org_id, attempt, holder, state, created_at, updated_at)
            select q.run_id, q.receipt, r.org_id, q.attempt, q.holder, 'leased',
                   absurd.current_time(), absurd.current_time()
              from {schema}.runs r where r.run_id = q.run_id
            on conflict (run_id, receipt_key) do update
               set attempt = excluded.attempt, holder = excluded.holder, state = 'leased',
                   updated_at = excluded.updated_at
             where receipts.state <> 'done' and (q.redo or receipts.holder = excluded.holder);
            select case when t.state = 'done' then jsonb_build_object(
                            'state', 'done', 'attempt', t.attempt, 'output', t.output)
                        when t.holder = q.holder then '{"state": "leased"}'
                        else jsonb_build_object('state', 'in_doubt', 'attempt', t.attempt) end
              into answer
              from {schema}.receipts t
             where t.run_id = q.run_id and t.receipt_key = q.receipt;
        else
            answer := 'null';
        end if;
        return next;
    end loop;
end $$;

-- Takes what came of an action from its holder, whatever became of the attempt meanwhile; answers
-- null to anybody else.
create function {schema}.complete_receipts(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
begin
    perform {schema}.lock_runs(p_requests);
    for q in
        select * from jsonb_to_recordset(p_requests) as (
            run_id text, attempt integer, receipt text, holder text, output jsonb)
    loop
        update {schema}.receipts t
           set state = 'done', output = q.output, updated_at = absurd.current_time()
         where t.run_id = q.run_id and t.receipt_key = q.receipt and t.attempt = q.attempt
           and t.holder = q.holder and t.state <> 'done';
        select jsonb_build_object('output', t.output) into answer
          from {schema}.receipts t
         where t.run_id = q.run_id and t.receipt_key = q.receipt and t.attempt = q.attempt
           and t.holder = q.holder;
        answer := coalesce(answer, 'null');
        return next;
    end loop;
end $$;
