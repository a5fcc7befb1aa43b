-- The tables of record. `{schema}` is the deployment's schema (C59, Q29).
--
-- Lock order on every path: the row of `runs` first, then the rows below it, then the engine's.

create table {schema}.lanes (
    lane text primary key,
    release_id text,
    created_at timestamptz not null default clock_timestamp(),
    last_claim_at timestamptz,
    draining boolean not null default false
);

create table {schema}.bundles (
    org_id text not null,
    bundle_hash text not null,
    content bytea not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (org_id, bundle_hash)
);

create table {schema}.launches (
    run_id text primary key,
    launch jsonb not null,
    input jsonb,
    created_at timestamptz not null default clock_timestamp()
);

create table {schema}.runs (
    run_id text primary key,
    org_id text not null,
    play_name text not null,
    lane text not null,
    release_id text,
    placement_key text not null,
    status text not null default 'queued'
        check (status in ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled')),
    task_id uuid,
    engine_run_id uuid,
    admitted_at timestamptz,
    attempt integer not null default 0,
    next_seq integer not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    created_projected_at timestamptz,
    cancel_requested_at timestamptz,
    cancelled_by text,
    outage_started_at timestamptz,
    retry_of text,
    terminal jsonb,
    terminal_at timestamptz,
    log_tail jsonb,
    why jsonb,
    check ((terminal_at is null) = (status in ('queued', 'running', 'waiting')))
);
create index runs_queued on {schema}.runs (lane, org_id, created_at, run_id)
    where status = 'queued' and admitted_at is null;
create index runs_in_flight on {schema}.runs (lane, org_id)
    where admitted_at is not null and terminal_at is null;
create index runs_by_age on {schema}.runs (org_id, created_at desc, run_id desc);
create index runs_all_by_age on {schema}.runs (created_at desc, run_id desc);

create table {schema}.attempts (
    run_id text not null,
    attempt integer not null,
    lease_token text not null,
    status text not null
        check (status in ('running', 'waiting', 'completed', 'failed', 'cancelled', 'retired')),
    engine_attempt integer not null,
    worker text,
    claim_owner text,
    heartbeat_at timestamptz,
    heartbeat_seq bigint not null default 0,
    suspension jsonb,
    checkpoint jsonb,
    silence jsonb,
    runner_terminal jsonb,
    runner_terminal_at timestamptz,
    pending jsonb,
    outage_started_at timestamptz,
    retired_reason text,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    primary key (run_id, attempt)
);
create index attempts_parked on {schema}.attempts (run_id)
    where status = 'waiting' and runner_terminal is null;
create index attempts_unsettled on {schema}.attempts (runner_terminal_at)
    where status in ('running', 'waiting') and runner_terminal is not null;

create table {schema}.decisions (
    decision_id bigint generated always as identity primary key,
    run_id text not null,
    attempt integer not null,
    rule text not null,
    evidence jsonb not null,
    at timestamptz not null default clock_timestamp()
);
create index decisions_by_run on {schema}.decisions (run_id, decision_id desc);

create table {schema}.outbox (
    run_id text not null,
    seq integer not null,
    event_id text not null unique,
    kind text not null,
    payload jsonb not null,
    occurred_at timestamptz not null default clock_timestamp(),
    due_at timestamptz not null default clock_timestamp(),
    attempts integer not null default 0,
    delivered_at timestamptz,
    dead_at timestamptz,
    last_error text,
    primary key (run_id, seq)
);
create index outbox_due on {schema}.outbox (due_at, run_id)
    where delivered_at is null and dead_at is null;

create table {schema}.outbox_leases (
    run_id text primary key,
    owner text not null,
    expires_at timestamptz not null
);

create table {schema}.run_events (
    run_id text not null,
    cursor bigint not null,
    event_id text not null,
    kind text not null,
    payload jsonb not null,
    occurred_at timestamptz not null default clock_timestamp(),
    primary key (run_id, cursor),
    unique (run_id, event_id)
);

create table {schema}.signals (
    run_id text not null,
    signal_id text not null,
    event_key text not null,
    boundary_id text,
    payload jsonb not null,
    created_at timestamptz not null default clock_timestamp(),
    claimed_boundary_id text,
    claimed_at timestamptz,
    primary key (run_id, signal_id)
);

create table {schema}.sheets (
    run_id text not null,
    table_namespace text not null,
    total integer not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (run_id, table_namespace)
);

create table {schema}.sheet_rows (
    run_id text not null,
    table_namespace text not null,
    row_index integer not null,
    attempt integer not null,
    input_row jsonb,
    output jsonb,
    error text,
    finished_at timestamptz not null default clock_timestamp(),
    primary key (run_id, table_namespace, row_index)
);

create table {schema}.steps (
    run_id text not null,
    step text not null,
    attempt integer not null,
    output jsonb,
    step_order bigint generated always as identity,
    created_at timestamptz not null default clock_timestamp(),
    primary key (run_id, step)
);

create table {schema}.receipts (
    run_id text not null,
    receipt_key text not null,
    org_id text not null,
    attempt integer not null,
    state text not null check (state in ('leased', 'done', 'released')),
    output jsonb,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    primary key (run_id, receipt_key)
);

create table {schema}.sandbox_operations (
    operation_key text primary key,
    token text not null unique,
    name text not null,
    provider text not null,
    org_id text not null,
    run_id text not null,
    attempt integer not null,
    state text not null default 'reserved'
        check (state in ('reserved', 'bound', 'deleting', 'gone', 'abandoned')),
    sandbox_id text,
    routing_domain text,
    reserved_at timestamptz not null default clock_timestamp(),
    bound_at timestamptz,
    gone_at timestamptz
);
-- One sandbox at a time: a play that slept gets its next one under an identity of its own, after
-- the one before it is gone.
create unique index sandbox_operations_open on {schema}.sandbox_operations
    (run_id, attempt, provider)
    where state in ('reserved', 'bound', 'deleting');
create index sandbox_operations_held on {schema}.sandbox_operations (provider, org_id)
    where state in ('reserved', 'bound', 'deleting');

create table {schema}.cleanup_jobs (
    job_id bigint generated always as identity primary key,
    run_id text not null,
    attempt integer not null,
    org_id text not null,
    provider text not null,
    operation_key text not null unique,
    sandbox_id text,
    sandbox_name text,
    operation_token text,
    routing_domain text,
    capture_crash boolean not null default false,
    cleanup_attempt integer not null default 0,
    failure_count integer not null default 0,
    due_at timestamptz not null default clock_timestamp(),
    owner text,
    lease_expires_at timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    done_at timestamptz
);
create index cleanup_jobs_due on {schema}.cleanup_jobs (due_at, job_id) where done_at is null;
create index cleanup_jobs_by_run on {schema}.cleanup_jobs (run_id, attempt);

create table {schema}.cleanup_events (
    event_id bigint generated always as identity primary key,
    job_id bigint not null,
    run_id text not null,
    attempt integer not null,
    provider text not null,
    sandbox_id text,
    routing_domain text,
    kind text not null,
    fields jsonb not null,
    at timestamptz not null default clock_timestamp()
);
create unique index cleanup_events_one_acceptance on {schema}.cleanup_events
    (job_id, coalesce(sandbox_id, ''))
    where kind = 'provider_delete_accepted';
create index cleanup_events_by_job on {schema}.cleanup_events (job_id, event_id);

create table {schema}.crash_diagnostics (
    run_id text not null,
    attempt integer not null,
    diagnostic jsonb not null,
    captured_at timestamptz not null default clock_timestamp(),
    primary key (run_id, attempt)
);

create table {schema}.sandbox_usage (
    run_id text not null,
    attempt integer not null,
    org_id text not null,
    provider text not null,
    sandbox_id text not null,
    started_at timestamptz not null default clock_timestamp(),
    ended_at timestamptz,
    primary key (run_id, attempt, provider, sandbox_id)
);
create index sandbox_usage_by_org on {schema}.sandbox_usage (org_id, ended_at);

create table {schema}.recovery_deferrals (
    run_id text not null,
    dependency text not null,
    first_failed_at timestamptz not null default clock_timestamp(),
    deferrals integer not null default 0,
    primary key (run_id, dependency)
);

create table {schema}.api_keys (
    key_id text primary key,
    key_hash text not null unique,
    org_id text not null,
    label text not null,
    operator boolean not null default false,
    created_at timestamptz not null default clock_timestamp(),
    revoked_at timestamptz
);

create table {schema}.secrets (
    org_id text not null,
    name text not null,
    sealed bytea not null,
    updated_at timestamptz not null default clock_timestamp(),
    primary key (org_id, name)
);

create table {schema}.duty_leases (
    duty text primary key,
    owner text not null,
    expires_at timestamptz not null
);

create table {schema}.workers (
    worker text primary key,
    lane text not null,
    release_id text,
    started_at timestamptz not null default clock_timestamp(),
    seen_at timestamptz not null default clock_timestamp()
);
