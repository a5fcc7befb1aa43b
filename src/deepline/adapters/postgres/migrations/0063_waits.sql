-- Waits that nothing but a signal or a person ends, for the census (F26, C58): runs that are parked for
-- an event without a limit. The age is since they were parked.
create function {schema}.waits_without_limit() returns jsonb language sql stable as $$
    select {schema}.pile(count(*), min(a.updated_at), absurd.current_time())
      from {schema}.attempts a join {schema}.runs r on r.run_id = a.run_id
     where a.status = 'waiting' and a.runner_terminal is null
       and a.suspension ->> 'kind' = 'integration_event'
       and a.suspension -> 'expiresAtMs' is not distinct from 'null'::jsonb
       and r.attempt = a.attempt and r.terminal_at is null
$$;
