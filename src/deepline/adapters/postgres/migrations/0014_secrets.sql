-- Sealed secrets of organisations. Gateways seal and unseal them; here they are bytes.

-- Answers no row when the organisation has as many as it may.
create function {schema}.put_secret(
    p_org_id text, p_name text, p_sealed bytea, p_most bigint)
returns table (name text, updated_at timestamptz) language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('deepline.secrets.{schema}.' || p_org_id, 0));
    return query
    insert into {schema}.secrets as s (org_id, name, sealed, updated_at)
    select p_org_id, p_name, p_sealed, absurd.current_time()
     where (select count(*) from {schema}.secrets k
             where k.org_id = p_org_id and k.name <> p_name) < p_most
    on conflict on constraint secrets_pkey do update
       set sealed = excluded.sealed, updated_at = excluded.updated_at
    returning s.name, s.updated_at;
end $$;

create function {schema}.remove_secret(p_org_id text, p_name text) returns boolean
language sql as $$
    with removed as (
        delete from {schema}.secrets s where s.org_id = p_org_id and s.name = p_name
        returning 1)
    select exists (select from removed)
$$;
