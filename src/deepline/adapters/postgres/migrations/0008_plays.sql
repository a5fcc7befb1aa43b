-- What a play writes while it runs: sheet rows, step results, events (C23, C26, C28).
--
-- A write of an attempt shares the lock of its run's row, so that the attempt cannot end while the
-- write is under way, and the attempt's writes don't wait for each other.

-- The positions of the requests whose attempt is live; it stays so until the transaction ends.
create function {schema}.stay_live(p_requests jsonb) returns integer[]
language plpgsql as $$
declare
    v_live integer[];
begin
    perform 1 from {schema}.runs r
     where r.run_id in (select q ->> 'run_id' from jsonb_array_elements(p_requests) q)
     order by r.run_id
       for share;
    select coalesce(array_agg(q.n), '{}') into v_live
      from rows from (jsonb_to_recordset(p_requests) as (run_id text, attempt integer))
           with ordinality as q(run_id, attempt, n)
      join {schema}.runs r
        on r.run_id = q.run_id and r.attempt = q.attempt and r.terminal_at is null
      join {schema}.attempts a
        on a.run_id = q.run_id and a.attempt = q.attempt and a.status in ('running', 'waiting');
    return v_live;
end $$;

-- Answers the finished rows, null when the attempt is over. The first total stays.
create function {schema}.open_sheets(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    v_live integer[] := {schema}.stay_live(p_requests);
begin
    insert into {schema}.sheets (run_id, table_namespace, total, created_at)
    select distinct on (q.run_id, q.table_namespace)
           q.run_id, q.table_namespace, q.total, absurd.current_time()
      from rows from (jsonb_to_recordset(p_requests) as (
               run_id text, table_namespace text, total integer))
           with ordinality as q(run_id, table_namespace, total, n)
     where q.n = any (v_live)
     order by q.run_id, q.table_namespace, q.n
    on conflict (run_id, table_namespace) do nothing;
    return query
        select case when q.n = any (v_live) then (
                   select coalesce(jsonb_agg(w.row_index order by w.row_index), '[]')
                     from {schema}.sheet_rows w
                    where w.run_id = q.run_id and w.table_namespace = q.table_namespace)
               else 'null' end
          from rows from (jsonb_to_recordset(p_requests) as (run_id text, table_namespace text))
               with ordinality as q(run_id, table_namespace, n)
         order by q.n;
end $$;

-- Answers how many rows were written now.
create function {schema}.finish_rows(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    v_live integer[] := {schema}.stay_live(p_requests);
    q record;
    v_written integer;
begin
    for q in
        select * from rows from (jsonb_to_recordset(p_requests) as (
                   run_id text, attempt integer, table_namespace text, rows jsonb))
               with ordinality as c(run_id, attempt, table_namespace, rows, n)
    loop
        if not q.n = any (v_live) then
            answer := '{"refused": "attempt_over"}';
        elsif not exists (
            select from {schema}.sheets s
             where s.run_id = q.run_id and s.table_namespace = q.table_namespace)
        then
            answer := '{"refused": "not_open"}';
        else
            -- In index order, so that two writers of the same rows can't wait for each other.
            insert into {schema}.sheet_rows (
                run_id, table_namespace, row_index, attempt, input_row, output, error, finished_at)
            select q.run_id, q.table_namespace, w.row_index, q.attempt, w.input_row, w.output,
                   w.error, absurd.current_time()
              from jsonb_to_recordset(q.rows) as w(
                       row_index integer, input_row jsonb, output jsonb, error text)
             order by w.row_index
            on conflict (run_id, table_namespace, row_index) do nothing;
            get diagnostics v_written = row_count;
            answer := jsonb_build_object('written', v_written);
        end if;
        return next;
    end loop;
end $$;

create function {schema}.save_steps(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    v_live integer[] := {schema}.stay_live(p_requests);
begin
    insert into {schema}.steps (run_id, step, attempt, output, created_at)
    select q.run_id, q.step, q.attempt, q.output, absurd.current_time()
      from rows from (jsonb_to_recordset(p_requests) as (
               run_id text, attempt integer, step text, output jsonb))
           with ordinality as q(run_id, attempt, step, output, n)
     where q.n = any (v_live)
     order by q.run_id, q.step, q.n
    on conflict (run_id, step) do nothing;
    return query
        select case when q.n = any (v_live)
                    then jsonb_build_object('attempt', s.attempt, 'output', s.output)
                    else 'null' end
          from rows from (jsonb_to_recordset(p_requests) as (run_id text, step text))
               with ordinality as q(run_id, step, n)
          left join {schema}.steps s on s.run_id = q.run_id and s.step = q.step
         order by q.n;
end $$;

-- Releases what an attempt leased, once it is over for this holder (I31); answers how many.
create function {schema}.release_receipts(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
begin
    perform {schema}.lock_runs(p_requests);
    return query
    with over as (
        select q.run_id, q.attempt, q.n
          from rows from (jsonb_to_recordset(p_requests) as (
                   run_id text, attempt integer, lease_token text))
               with ordinality as q(run_id, attempt, lease_token, n)
         where not exists (select from {schema}.held_attempt(
                   q.run_id, q.attempt, q.lease_token, '{running,waiting}'))),
    released as (
        update {schema}.receipts t set state = 'released', updated_at = absurd.current_time()
          from (select distinct o.run_id, o.attempt from over o) o
         where t.run_id = o.run_id and t.attempt = o.attempt and t.state = 'leased'
        returning t.run_id, t.attempt)
    select to_jsonb(count(e.run_id))
      from jsonb_array_elements(p_requests) with ordinality as q(request, n)
      left join over o on o.n = q.n
      left join released e on e.run_id = o.run_id and e.attempt = o.attempt
     group by q.n order by q.n;
end $$;

-- Cursors of a run grow in the order in which they become visible: whoever adds events holds the
-- run's turn until commit, so that a reader who asks for more than he saw misses none.
create function {schema}.take_event_turns(p_requests jsonb) returns void
language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('deepline.run_events.{schema}.' || t.run_id, 0))
       from (select distinct q ->> 'run_id' as run_id from jsonb_array_elements(p_requests) q
              order by 1) t;
end $$;

-- Adds the events that the run does not know yet, in order, unless they would be too many: then
-- null. The caller has the run's turn.
create function {schema}.add_events(p_run_id text, p_events jsonb, p_events_max bigint)
returns integer language plpgsql as $$
declare
    v_now timestamptz := absurd.current_time();
    v_last bigint := coalesce((
        select max(e.cursor) from {schema}.run_events e where e.run_id = p_run_id), 0);
    v_added integer;
begin
    with given as (
        select distinct on (g.event_id) g.*
          from rows from (jsonb_to_recordset(p_events) as (
                   event_id text, kind text, payload jsonb, occurred_at timestamptz))
               with ordinality as g(event_id, kind, payload, occurred_at, n)
         order by g.event_id, g.n),
    unknown as materialized (
        select g.*, row_number() over (order by g.n) as place, count(*) over () as total
          from given g
         where not exists (
             select from {schema}.run_events k
              where k.run_id = p_run_id and k.event_id = g.event_id)),
    added as (
        insert into {schema}.run_events (run_id, cursor, event_id, kind, payload, occurred_at)
        select p_run_id, v_last + u.place, u.event_id, u.kind, u.payload,
               coalesce(u.occurred_at, v_now)
          from unknown u
         where p_events_max is null or v_last + u.total <= p_events_max
         order by u.place
        returning 1)
    select case when (select count(*) from unknown) = count(*) then count(*) end
      into v_added from added;
    return v_added;
end $$;

create function {schema}.append_events(p_requests jsonb, p_events_max bigint)
returns table (answer jsonb) language plpgsql as $$
declare
    v_live integer[] := {schema}.stay_live(p_requests);
    q record;
    v_added integer;
begin
    perform {schema}.take_event_turns(p_requests);
    for q in select * from rows from (jsonb_to_recordset(p_requests) as (run_id text, events jsonb))
        with ordinality as c(run_id, events, n)
    loop
        if q.n = any (v_live) then
            v_added := {schema}.add_events(q.run_id, q.events, p_events_max);
            answer := case when v_added is null then '{"refused": "event_quota"}'::jsonb
                           else jsonb_build_object('added', v_added) end;
        else
            answer := '{"refused": "attempt_over"}';
        end if;
        return next;
    end loop;
end $$;

-- Facts are applied whatever became of the run, and beyond its bound of events.
create function {schema}.apply_facts(p_requests jsonb) returns table (answer jsonb)
language plpgsql as $$
declare
    q record;
begin
    perform {schema}.take_event_turns(p_requests);
    for q in select * from jsonb_to_recordset(p_requests) as (run_id text, events jsonb) loop
        answer := jsonb_build_object('added', {schema}.add_events(q.run_id, q.events, null));
        return next;
    end loop;
end $$;

create function {schema}.put_bundle(p_org_id text, p_bundle_hash text, p_content bytea)
returns void language sql as $$
    insert into {schema}.bundles (org_id, bundle_hash, content, created_at)
    values (p_org_id, p_bundle_hash, p_content, absurd.current_time())
    on conflict (org_id, bundle_hash) do nothing
$$;
