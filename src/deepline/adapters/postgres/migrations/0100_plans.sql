-- How the steps are planned: always through indexes, whatever the size of a table at that moment.
--
-- A session plans the statements of a function once and keeps the plans. Made while a table is
-- nearly empty, such a plan reads the whole table, and goes on to do so for as long as nobody
-- analyses the table, however fast it grows. A step touches as many rows as a batch has, each by
-- an index, so plans that read or hash whole tables are never the right ones here; leaving them
-- out also makes planning cheaper, which is most of what the engine's own statements cost, as
-- they are planned at each call.
do $$
declare
    v_step regprocedure;
begin
    for v_step in
        select p.oid::regprocedure from pg_proc p
          join pg_language l on l.oid = p.prolang
         where p.pronamespace = '{schema}'::regnamespace and l.lanname = 'plpgsql'
           and ('answer' = any (p.proargnames) or p.proname = 'next_due')
    loop
        execute format('alter function %s set enable_seqscan = off', v_step);
        execute format('alter function %s set enable_bitmapscan = off', v_step);
        execute format('alter function %s set enable_hashjoin = off', v_step);
        execute format('alter function %s set enable_mergejoin = off', v_step);
        execute format('alter function %s set plan_cache_mode = force_generic_plan', v_step);
    end loop;
end $$;
