"""The settings that several roles share: the store, the process, the limits."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import attrs

from deepline.adapters.telemetry import LogFormat, LogLevel
from deepline.cli.fault_point import FaultPoint, read_fault_point
from deepline.cli.settings.reading import Reader
from deepline.core.limits import Limits

SCHEMA = "deepline"
PRODUCTION_SCHEMA = SCHEMA
SECOND = timedelta(seconds=1)
MILLISECOND = timedelta(milliseconds=1)


def masked(_: object) -> str:
    """How a secret looks in a `repr`."""
    return "***"


@attrs.frozen(kw_only=True)
class StoreSettings:
    """How to reach the store of record. `listen_dsn` leads past a pooler, for notifications.

    `fault_point` is where a test lets the role die.
    """

    dsn: str = attrs.field(repr=masked)
    listen_dsn: str | None = attrs.field(default=None, repr=masked)
    through_pooler: bool = False
    connections: int = 10
    schema: str = SCHEMA
    fault_point: FaultPoint | None = None


@attrs.frozen(kw_only=True)
class ProcessSettings:
    """What every long-running role decides alike. `metrics_port` `None` opens no endpoint."""

    home: Path
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.AUTO
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    production: bool = False
    traces_exporter: str | None = None
    """The exporter of traces that is installed under this name; without one nothing is traced."""


def read_store(reader: Reader, dsn: str | None = None) -> StoreSettings:
    """The store's settings; a `dsn` given here needs no variable."""
    return StoreSettings(
        dsn=dsn or reader.required("WORKFLOW_RUNTIME_POSTGRES"),
        listen_dsn=reader.text("DEEPLINE_POSTGRES_LISTEN"),
        through_pooler=reader.switch("DEEPLINE_POSTGRES_POOLER"),
        connections=reader.whole("DEEPLINE_POSTGRES_CONNECTIONS", 10, least=2, most=1_000),
        schema=reader.text("DEEPLINE_SCHEMA") or SCHEMA,
        fault_point=read_fault_point(reader, production=is_production(reader)),
    )


def read_process(reader: Reader) -> ProcessSettings:
    """The settings of the process itself."""
    port = reader.whole("DEEPLINE_METRICS_PORT", -1, least=0, most=65_535)
    return ProcessSettings(
        home=read_home(reader),
        log_level=reader.choice("DEEPLINE_LOG_LEVEL", LogLevel.INFO),
        log_format=reader.choice("DEEPLINE_LOG_FORMAT", LogFormat.AUTO),
        metrics_host=reader.text("DEEPLINE_METRICS_HOST") or "127.0.0.1",
        metrics_port=None if port < 0 else port,
        production=is_production(reader),
        traces_exporter=reader.text("DEEPLINE_TRACES_EXPORTER"),
    )


def is_production(reader: Reader) -> bool:
    """Production is the word and the schema together (Q06), so a preview never counts as it."""
    stage = reader.text("DEEPLINE_ENV") or reader.text("NODE_ENV") or ""
    schema = reader.text("DEEPLINE_SCHEMA") or SCHEMA
    return stage.lower() == "production" and schema == PRODUCTION_SCHEMA


def read_home(reader: Reader) -> Path:
    """Where this machine keeps what is its own: local sandboxes, the embedded database, keys."""
    chosen = reader.text("DEEPLINE_HOME")
    return Path(chosen).expanduser().absolute() if chosen else default_home(os.environ)


def default_home(environment: Mapping[str, str], *, root: bool | None = None) -> Path:
    """A user's own directory; for root one that the database server's account can enter too."""
    if os.geteuid() == 0 if root is None else root:
        return Path("/var/lib/deepline")
    data = environment.get("XDG_DATA_HOME", "").strip()
    return (Path(data) if data else Path.home() / ".local" / "share") / "deepline"


def read_limits(reader: Reader) -> Limits:
    """The bounds of the runtime; what cannot work together is noted sentence by sentence."""
    base = Limits()
    whole, length = reader.whole, reader.length
    limits = Limits(
        claim_lease=length("RUNTIME_CLAIM_LEASE_SECONDS", base.claim_lease, unit=SECOND),
        heartbeat_divisor=whole(
            "RUNTIME_CLAIM_HEARTBEAT_DIVISOR", base.heartbeat_divisor, least=1, most=1_000
        ),
        max_engine_attempts=whole(
            "ABSURD_PLAY_RUN_MAX_ATTEMPTS", base.max_engine_attempts, least=1, most=1_000
        ),
        token_request=length(
            "ATTEMPT_EXECUTOR_TOKEN_MINT_TIMEOUT_MS", base.token_request, unit=MILLISECOND
        ),
        token_outage_max=length(
            "ABSURD_EXECUTOR_TOKEN_OUTAGE_MAX_MS", base.token_outage_max, unit=MILLISECOND
        ),
        token_outage_delay=length(
            "ABSURD_EXECUTOR_TOKEN_OUTAGE_DEFER_SECONDS", base.token_outage_delay, unit=SECOND
        ),
        sandbox_delete=length(
            "ABSURD_SANDBOX_GC_TIMEOUT_MS", base.sandbox_delete, unit=MILLISECOND
        ),
        outbox_lease=length("DEEPLINE_OUTBOX_LEASE_SECONDS", base.outbox_lease, unit=SECOND),
        cleanup_lease=length("DEEPLINE_CLEANUP_LEASE_SECONDS", base.cleanup_lease, unit=SECOND),
        cleanup_poll=length("DEEPLINE_CLEANUP_POLL_SECONDS", base.cleanup_poll, unit=SECOND),
        overdue_interval=length(
            "ABSURD_OVERDUE_DETACHED_RUNNER_RECOVERY_INTERVAL_MS",
            base.overdue_interval,
            unit=MILLISECOND,
        ),
        create_may_land=length(
            "DEEPLINE_CREATE_MAY_LAND_SECONDS", base.create_may_land, unit=SECOND
        ),
        adoption_interval=length(
            "ABSURD_LANE_ADOPTION_DISCOVERY_INTERVAL_MS", base.adoption_interval, unit=MILLISECOND
        ),
        adopted_lanes=whole(
            "ABSURD_LANE_ADOPTION_MAX_QUEUES", base.adopted_lanes, least=1, most=100
        ),
        lane_quiet=length("DEEPLINE_LANE_QUIET_SECONDS", base.lane_quiet, unit=SECOND),
        lane_worker_lost=length(
            "DEEPLINE_LANE_WORKER_LOST_SECONDS", base.lane_worker_lost, unit=SECOND
        ),
        drain_poll=length("DEEPLINE_DRAIN_POLL_SECONDS", base.drain_poll, unit=SECOND),
        drain=length("DEEPLINE_DRAIN_SECONDS", base.drain, unit=SECOND),
        detached_ceiling=length(
            "DEEPLINE_DETACHED_CEILING_SECONDS", base.detached_ceiling, unit=SECOND
        ),
    )
    for sentence in limits.violations():
        reader.wrong(sentence)
    return limits
