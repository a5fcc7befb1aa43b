"""Settings: what is read, what is refused, and what is never shown (C01, Q06, F32, F33)."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from deepline.adapters.local import Isolation
from deepline.adapters.telemetry import LogFormat, LogLevel
from deepline.cli.embedded import with_local_defaults
from deepline.cli.settings.controller import read_controller
from deepline.cli.settings.gateway import read_gateway, split_keys
from deepline.cli.settings.parts import default_home
from deepline.cli.settings.reading import SettingsRefused
from deepline.cli.settings.variables import VARIABLES
from deepline.cli.settings.worker import lane_of, read_worker
from deepline.gateway import SigningKeys, generate_secrets_key, generate_signing_key

DSN = "postgresql://me:hunter2-the-second@db/x"
TOKEN = "internal-token-of-the-tests"
BASE = {
    "WORKFLOW_RUNTIME_POSTGRES": DSN,
    "DEEPLINE_INTERNAL_TOKEN": TOKEN,
    "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL": "http://gateway:8400",
    "DEEPLINE_PLAY_RUNNER_BACKEND": "local",
    "DEEPLINE_HOME": "/srv/deepline",
}
PEM = generate_signing_key()
GATEWAY = BASE | {"DEEPLINE_SIGNING_KEY": PEM}

Read = Callable[[Mapping[str, str]], object]


class Watched(dict[str, str]):
    """An environment that remembers which variables were looked at."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.seen: set[str] = set()

    def get(self, name: str, default: object = None) -> str:
        self.seen.add(name)
        return super().get(name, default)  # type: ignore[arg-type]

    def __getitem__(self, name: str) -> str:
        self.seen.add(name)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the whole environment is nobody's business")


def refusal(read: Read, values: Mapping[str, str]) -> str:
    """What a role says when it refuses these settings."""
    with pytest.raises(SettingsRefused) as refused:
        read(values)
    return str(refused.value)


def test_a_worker_names_everything_that_is_missing_at_once_and_in_order() -> None:
    """Provider credentials come first, then the general ones; blank counts as missing (C01)."""
    assert "missing required environment: DAYTONA_API_KEY, WORKFLOW_RUNTIME_POSTGRES, " in refusal(
        read_worker, {"DEEPLINE_INTERNAL_TOKEN": "  "}
    )
    assert (
        "MODAL_TOKEN_ID, MODAL_TOKEN_SECRET, WORKFLOW_RUNTIME_POSTGRES, DEEPLINE_INTERNAL_TOKEN, "
        "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL"
    ) in refusal(read_worker, {"DEEPLINE_PLAY_RUNNER_BACKEND": " modal "})


def test_missing_and_wrong_are_named_together_in_one_line() -> None:
    """Whoever mends one setting should not meet the next one at the next start."""
    said = refusal(
        read_worker,
        {
            "DEEPLINE_PLAY_RUNNER_BACKEND": "local",
            "DEEPLINE_INTERNAL_TOKEN": TOKEN,
            "DEEPLINE_WORKER_SLOTS": "many",
            "DEEPLINE_METRICS_PORT": "70000",
        },
    )

    assert "missing required environment: WORKFLOW_RUNTIME_POSTGRES, DEEPLINE_RUNTIME" in said
    assert "DEEPLINE_WORKER_SLOTS must be a whole number from 1 to 10000" in said
    assert "DEEPLINE_METRICS_PORT must be a whole number from 0 to 65535" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("DEEPLINE_PLAY_RUNNER_BACKEND", "moon", "known backends: daytona"),
        ("DEEPLINE_WORKER_SLOTS", "0", "must be a whole number"),
        ("DEEPLINE_WORKER_SLOTS", "1_0", "must be a whole number"),
        ("DEEPLINE_WORKER_SLOTS", "٣", "must be a whole number"),
        ("DEEPLINE_WORKER_SLOTS", "-3", "must be a whole number"),
        ("DEEPLINE_LOCAL_ISOLATION", "maybe", "must be one of require, prefer, none"),
        ("DEEPLINE_LOG_LEVEL", "debug", "must be one of info, warn, error"),
        ("DEEPLINE_POSTGRES_POOLER", "perhaps", "must be yes or no"),
        ("DEEPLINE_POSTGRES_CONNECTIONS", "1", "from 2 to"),
        ("DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL", "gateway:8400", "must begin with http://"),
        ("RUNTIME_CLAIM_LEASE_SECONDS", "0", "must be a whole number from 1"),
        ("RUNTIME_CLAIM_HEARTBEAT_DIVISOR", "2", "heartbeat divisor must be at least 3"),
    ],
)
def test_what_cannot_work_is_refused(name: str, value: str, says: str) -> None:
    """A configuration that cannot work is a refusal at start, not a surprise at night (F33)."""
    assert says in refusal(read_worker, BASE | {name: value})


def test_a_refusal_does_not_repeat_the_value() -> None:
    """A value in the wrong variable may be a secret."""
    secret = "dlk_hunter2hunter2"

    said = refusal(read_worker, BASE | {"DEEPLINE_WORKER_SLOTS": secret})

    assert secret not in said


def test_a_worker_is_read_with_its_defaults() -> None:
    """What is not set has the documented value."""
    role = read_worker(BASE | {"DEEPLINE_WORKER_NAME": "w"})

    assert (role.backend, role.providers) == ("local", ("local",))
    assert (role.slots, role.org_limit, role.isolation) == (10, 1_000, Isolation.PREFER)
    assert role.limits.claim_lease == timedelta(seconds=60)
    assert role.store.schema == "deepline"
    assert role.process.metrics_port is None
    assert (role.process.log_level, role.process.log_format) == (LogLevel.INFO, LogFormat.AUTO)
    assert role.sandboxes == Path("/srv/deepline/sandboxes")
    assert lane_of(role) == ("runs", None)


def test_lease_and_ceiling_are_independent() -> None:
    """A six hour play with a thirty second lease is a normal configuration (F32)."""
    role = read_worker(
        BASE
        | {
            "RUNTIME_CLAIM_LEASE_SECONDS": "30",
            "DEEPLINE_DETACHED_CEILING_SECONDS": "21600",
            "ABSURD_EXECUTOR_TOKEN_OUTAGE_MAX_MS": "1500",
            "DEEPLINE_OUTBOX_LEASE_SECONDS": "20",
            "DEEPLINE_CLEANUP_LEASE_SECONDS": "40",
            "DEEPLINE_CLEANUP_POLL_SECONDS": "2",
            "DEEPLINE_CREATE_MAY_LAND_SECONDS": "60",
        }
    )

    assert role.limits.claim_lease == timedelta(seconds=30)
    assert role.limits.detached_ceiling == timedelta(hours=6)
    assert role.limits.token_outage_max == timedelta(milliseconds=1500)
    assert role.limits.outbox_lease == timedelta(seconds=20)
    assert role.limits.cleanup_lease == timedelta(seconds=40)
    assert role.limits.cleanup_poll == timedelta(seconds=2)
    assert role.limits.create_may_land == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("extra", "lane", "release"),
    [
        ({}, "runs", None),
        ({"DEEPLINE_QUEUE_SUFFIX": "mine"}, r"runs_[0-9a-f]{16}", "mine"),
        ({"DEEPLINE_RELEASE_ID": "r1", "DEEPLINE_QUEUE_SUFFIX": "mine"}, r"runs_.{16}", "r1"),
    ],
)
def test_a_worker_serves_the_lane_of_its_release(
    extra: dict[str, str], lane: str, release: str | None
) -> None:
    """The release names the lane, else the suffix, else it is the base lane (C05, Q07)."""
    found = lane_of(read_worker(BASE | extra))

    assert re.fullmatch(lane, found[0])
    assert found[1] == release


@pytest.mark.parametrize(
    ("extra", "production"),
    [
        ({}, False),
        ({"DEEPLINE_ENV": "production"}, True),
        ({"NODE_ENV": "Production"}, True),
        ({"DEEPLINE_ENV": "preview", "NODE_ENV": "production"}, False),
        ({"DEEPLINE_ENV": "production", "DEEPLINE_SCHEMA": "preview_7"}, False),
    ],
)
def test_production_is_the_word_and_the_schema(extra: dict[str, str], production: bool) -> None:
    """A preview schema is never production, whatever the environment is called (Q06)."""
    assert read_worker(BASE | extra).process.production is production


def test_a_worker_reads_no_signing_key() -> None:
    """It boots without one, and does not even look at the variables that hold one (C01.5, I45)."""
    environment = Watched(
        GATEWAY | {"BETTER_AUTH_SECRET": "x", "DEEPLINE_SIGNING_KEY_FILE": "/nowhere"}
    )

    read_worker(environment)

    assert "WORKFLOW_RUNTIME_POSTGRES" in environment.seen
    looked = {name for name in environment.seen if re.search("SIGN|AUTH|JWT", name)}
    assert looked == set()


@pytest.mark.parametrize("read", [read_worker, read_gateway, read_controller])
def test_roles_show_no_secret(read: Read) -> None:
    """A `repr` in a log or a traceback is as public as either."""
    shown = repr(read(GATEWAY | {"DEEPLINE_FRONT_DOOR_BYPASS_SECRET": "bypass-hunter2"}))

    for secret in ("hunter2", TOKEN, PEM.splitlines()[1]):
        assert secret not in shown


def test_a_gateway_needs_a_key_a_token_and_a_database() -> None:
    """A gateway's required variables are not a worker's."""
    assert "missing required environment: WORKFLOW_RUNTIME_POSTGRES, DEEPLINE_INTERNAL_TOKEN, " in (
        said := refusal(read_gateway, {})
    )
    assert "DEEPLINE_SIGNING_KEY" in said
    assert "DAYTONA" not in said


def test_signing_keys_rotate_from_a_text_or_a_file(tmp_path: Path) -> None:
    """Several keys may be given, newest first; a line break may be written as two characters."""
    second = generate_signing_key()
    file = tmp_path / "keys.pem"
    file.write_text(PEM + second)

    from_file = read_gateway(BASE | {"DEEPLINE_SIGNING_KEY_FILE": str(file)})
    escaped = PEM.strip().replace("\n", "\\n")

    assert len(SigningKeys.from_pem(from_file.signing_keys).jwks()["keys"]) == 2  # type: ignore[arg-type]
    assert len(split_keys(escaped)) == 1
    assert SigningKeys.from_pem(split_keys(escaped)).jwks()


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"DEEPLINE_SIGNING_KEY": "not a key"}, "must hold Ed25519 private keys in PEM form"),
        (
            {"DEEPLINE_SIGNING_KEY": "", "DEEPLINE_SIGNING_KEY_FILE": "/nowhere/at/all"},
            "DEEPLINE_SIGNING_KEY_FILE must name a file",
        ),
        ({"DEEPLINE_INTERNAL_TOKEN": "short"}, "must have at least 16 characters"),
        ({"DEEPLINE_GATEWAY_HOST": "0.0.0.0"}, "DEEPLINE_PUBLIC_URL must say how"),
        ({"DEEPLINE_PUBLIC_URL": "gateway"}, "DEEPLINE_PUBLIC_URL must begin with http://"),
        ({"DEEPLINE_GATEWAY_PORT": "eighty"}, "must be a whole number"),
    ],
)
def test_a_gateway_that_nobody_could_use_is_refused(extra: dict[str, str], says: str) -> None:
    """Each of these would only show when the first worker or runner calls."""
    assert says in refusal(read_gateway, GATEWAY | extra)


def test_a_gateway_holds_no_provider_unless_told_to() -> None:
    """Credentials in its environment are not even looked at by a gateway that may not delete."""
    values = Watched(GATEWAY | {"DAYTONA_API_KEY": "key-of-the-account"})

    role = read_gateway(values)

    assert role.providers == ()
    assert role.daytona.api_key == ""
    assert "DAYTONA_API_KEY" not in values.seen


def test_a_gateway_may_be_given_daytona() -> None:
    """Then it needs the account, and shows nothing of it (C10)."""
    role = read_gateway(
        GATEWAY | {"DEEPLINE_GATEWAY_PROVIDERS": " daytona, daytona ", "DAYTONA_API_KEY": "the-key"}
    )

    assert role.providers == ("daytona",)
    assert role.daytona.api_key == "the-key"
    assert "the-key" not in repr(role)
    missing = refusal(read_gateway, GATEWAY | {"DEEPLINE_GATEWAY_PROVIDERS": "daytona"})
    assert "DAYTONA_API_KEY" in missing
    others = refusal(read_gateway, GATEWAY | {"DEEPLINE_GATEWAY_PROVIDERS": "modal"})
    assert "daytona alone" in others


def test_keys_of_secrets_come_from_a_text_or_a_file(tmp_path: Path) -> None:
    """None is fine, one that cannot be used is refused without being shown."""
    file = tmp_path / "secrets-key"
    file.write_text(f"{generate_secrets_key()}\n{generate_secrets_key()}\n")
    named = GATEWAY | {"DEEPLINE_SECRETS_KEY_FILE": str(file)}

    assert len(read_gateway(named).secrets_keys) == 2
    assert len(read_gateway(named | {"DEEPLINE_SECRETS_KEY": "A" * 43 + "="}).secrets_keys) == 1
    assert read_gateway(GATEWAY).secrets_keys == ()
    said = refusal(read_gateway, GATEWAY | {"DEEPLINE_SECRETS_KEY": "hunter2"})
    assert "DEEPLINE_SECRETS_KEY must hold 32 random bytes" in said
    assert "hunter2" not in said
    file.write_text("\n")
    assert "DEEPLINE_SECRETS_KEY_FILE must hold" in refusal(read_gateway, named)
    named["DEEPLINE_SECRETS_KEY_FILE"] = str(tmp_path / "none")
    assert "may read" in refusal(read_gateway, named)


def test_root_keeps_its_directory_where_the_database_account_may_enter() -> None:
    """Root's own home is closed to others, and the server does not run as root."""
    assert default_home({}, root=True) == Path("/var/lib/deepline")
    assert default_home({"XDG_DATA_HOME": "/data"}, root=False) == Path("/data/deepline")
    assert default_home({}, root=False).parts[-3:] == (".local", "share", "deepline")


def test_one_machine_runs_plays_locally_unless_told_otherwise() -> None:
    """`deepline up` needs no account with anybody; what is set wins, and blank is not set."""
    assert with_local_defaults({})["DEEPLINE_PLAY_RUNNER_BACKEND"] == "local"
    assert with_local_defaults({"DEEPLINE_LOG_LEVEL": " "})["DEEPLINE_LOG_LEVEL"] == "warn"
    assert with_local_defaults({"DEEPLINE_LOG_LEVEL": "info"})["DEEPLINE_LOG_LEVEL"] == "info"


def test_every_variable_is_documented_and_nothing_else_is() -> None:
    """The page of settings and the table in code name the same variables and defaults."""
    page = Path(__file__).parents[2] / "docs" / "operations" / "settings.md"
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \| ([^|]+) \|$", page.read_text(), re.MULTILINE)

    assert {name: default for name, default, _ in rows} == {
        variable.name: variable.default or "required" for variable in VARIABLES
    }
    secret = {name for name, _, text in rows if text.startswith("*Secret.*")}
    assert secret == {variable.name for variable in VARIABLES if variable.secret}
