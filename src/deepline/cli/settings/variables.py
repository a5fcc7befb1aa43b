"""Every environment variable that an operator's command reads, in one table.

Reading one that does not stand here is a mistake that a test finds, and so is one that
docs/operations/settings.md does not explain.
"""

from collections.abc import Mapping, Sequence

import attrs


@attrs.frozen(kw_only=True)
class Variable:
    """One variable. `default` is what an unset one means, in words; `None` where it is required.

    `secret` values are never shown.
    """

    name: str
    default: str | None
    secret: bool = False


def _required(name: str, *, secret: bool = False) -> Variable:
    return Variable(name=name, default=None, secret=secret)


def _optional(name: str, default: str, *, secret: bool = False) -> Variable:
    return Variable(name=name, default=default, secret=secret)


VARIABLES: Sequence[Variable] = (
    _required("WORKFLOW_RUNTIME_POSTGRES", secret=True),
    _optional("DEEPLINE_POSTGRES_LISTEN", "as WORKFLOW_RUNTIME_POSTGRES", secret=True),
    _optional("DEEPLINE_POSTGRES_POOLER", "no"),
    _optional("DEEPLINE_POSTGRES_CONNECTIONS", "10"),
    _optional("DEEPLINE_SCHEMA", "deepline"),
    _required("DEEPLINE_INTERNAL_TOKEN", secret=True),
    _required("DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL"),
    _optional("DEEPLINE_PLAY_RUNNER_BACKEND", "daytona"),
    _optional("DEEPLINE_WORKER_NAME", "the host's name"),
    _optional("DEEPLINE_WORKER_SLOTS", "10"),
    _optional("DEEPLINE_ORG_LIMIT", "1000"),
    _optional("DEEPLINE_RELEASE_ID", "none"),
    _optional("DEEPLINE_QUEUE_SUFFIX", "none"),
    _optional("DEEPLINE_LOCAL_ISOLATION", "prefer"),
    _optional("DEEPLINE_SANDBOX_OWNER", "deepline"),
    _optional("DAYTONA_API_KEY", "none", secret=True),
    _optional("DAYTONA_API_URL", "Daytona's own"),
    _optional("DAYTONA_TARGET", "the organisation's"),
    _optional("DAYTONA_ORGANIZATION_ID", "whose the key is"),
    _optional("DAYTONA_SNAPSHOT", "the organisation's"),
    _optional("MODAL_TOKEN_ID", "none"),
    _optional("MODAL_TOKEN_SECRET", "none", secret=True),
    _optional("MODAL_ENVIRONMENT", "main"),
    _optional("MODAL_SERVER_URL", "Modal's own"),
    _optional("DEEPLINE_MODAL_APP", "deepline"),
    _optional("DEEPLINE_MODAL_IMAGE", "Modal's small Debian"),
    _optional("DEEPLINE_LANE_ADOPTION", "begun"),
    _optional("DEEPLINE_DRAIN_EXIT", "no"),
    _optional("DEEPLINE_FRONT_DOOR_BYPASS_SECRET", "none", secret=True),
    _optional("DEEPLINE_GATEWAY_HOST", "127.0.0.1"),
    _optional("DEEPLINE_GATEWAY_PORT", "8400"),
    _optional("DEEPLINE_GATEWAY_PROVIDERS", "none"),
    _optional("DEEPLINE_PUBLIC_URL", "the address it listens on"),
    _optional("DEEPLINE_SIGNING_KEY", "the file", secret=True),
    _optional("DEEPLINE_SIGNING_KEY_FILE", "none"),
    _optional("DEEPLINE_SECRETS_KEY", "the file", secret=True),
    _optional("DEEPLINE_SECRETS_KEY_FILE", "none"),
    _optional("DEEPLINE_PLACEMENT_POLICY", "none"),
    _optional("DEEPLINE_PLACEMENT_POLICIES_FILE", "none"),
    _optional("DEEPLINE_SANDBOX_LIMIT", "none"),
    _optional("DEEPLINE_SANDBOX_ORG_LIMIT", "none"),
    _optional("DEEPLINE_ALLOW_TEST_FAULTS", "no"),
    _optional("DEEPLINE_TEST_FAULT", "none"),
    _optional("DEEPLINE_METRICS_HOST", "127.0.0.1"),
    _optional("DEEPLINE_METRICS_PORT", "none"),
    _optional("DEEPLINE_TRACES_EXPORTER", "none"),
    _optional("DEEPLINE_LOG_LEVEL", "info"),
    _optional("DEEPLINE_LOG_FORMAT", "auto"),
    _optional("DEEPLINE_ENV", "development"),
    _optional("NODE_ENV", "none"),
    _optional("DEEPLINE_HOME", "a directory of the user's"),
    _optional("DEEPLINE_API_URL", "what deepline up wrote"),
    _optional("DEEPLINE_API_KEY", "what deepline up wrote", secret=True),
    _optional("RUNTIME_CLAIM_LEASE_SECONDS", "60"),
    _optional("RUNTIME_CLAIM_HEARTBEAT_DIVISOR", "4"),
    _optional("ABSURD_PLAY_RUN_MAX_ATTEMPTS", "5"),
    _optional("ATTEMPT_EXECUTOR_TOKEN_MINT_TIMEOUT_MS", "30000"),
    _optional("ABSURD_EXECUTOR_TOKEN_OUTAGE_MAX_MS", "600000"),
    _optional("ABSURD_EXECUTOR_TOKEN_OUTAGE_DEFER_SECONDS", "5"),
    _optional("ABSURD_SANDBOX_GC_TIMEOUT_MS", "15000"),
    _optional("DEEPLINE_OUTBOX_LEASE_SECONDS", "30"),
    _optional("DEEPLINE_CLEANUP_LEASE_SECONDS", "60"),
    _optional("DEEPLINE_CLEANUP_POLL_SECONDS", "10"),
    _optional("DEEPLINE_LIVENESS_SWEEP", "observe"),
    _optional("DEEPLINE_ORPHAN_SWEEP", "observe"),
    _optional("DEEPLINE_ORPHAN_SWEEP_INTERVAL_SECONDS", "300"),
    _optional("DEEPLINE_ORPHAN_GRACE_SECONDS", "900"),
    _optional("DEEPLINE_ORPHAN_UNKNOWN_SECONDS", "86400"),
    _optional("DEEPLINE_DUTY_LEASE_SECONDS", "30"),
    _optional("ABSURD_OVERDUE_DETACHED_RUNNER_RECOVERY_INTERVAL_MS", "15000"),
    _optional("ABSURD_DETACHED_RUNNER_LIVENESS_PASS_BUDGET_MS", "10000"),
    _optional("ABSURD_DETACHED_RUNNER_LIVENESS_HARD_STOP_MS", "12000"),
    _optional("ABSURD_DETACHED_RUNNER_LIVENESS_READS_PER_PROVIDER", "3"),
    _optional("ABSURD_DETACHED_RUNNER_LIVENESS_READ_DEADLINE_MS", "60000"),
    _optional("ABSURD_DETACHED_RUNNER_LIVENESS_MAX_ABANDONED_READS", "6"),
    _optional("ABSURD_DETACHED_RUNNER_LIVENESS_PAGE_LIMIT", "100"),
    _optional("ABSURD_DETACHED_RUNNER_LIVENESS_RECHECK_MS", "60000"),
    _optional("DEEPLINE_CREATE_MAY_LAND_SECONDS", "900"),
    _optional("ABSURD_LANE_ADOPTION_DISCOVERY_INTERVAL_MS", "30000"),
    _optional("ABSURD_LANE_ADOPTION_MAX_QUEUES", "8"),
    _optional("DEEPLINE_LANE_QUIET_SECONDS", "300"),
    _optional("DEEPLINE_LANE_WORKER_LOST_SECONDS", "45"),
    _optional("DEEPLINE_DRAIN_POLL_SECONDS", "15"),
    _optional("DEEPLINE_DRAIN_SECONDS", "30"),
    _optional("DEEPLINE_DETACHED_CEILING_SECONDS", "21600"),
)

BY_NAME: Mapping[str, Variable] = {variable.name: variable for variable in VARIABLES}
