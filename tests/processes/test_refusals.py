"""What cannot work refuses to start: one line that says what to do, and nothing half-made."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import pytest

from tests.cli.commands import deepline, lines
from tests.cli.deployments import variables
from tests.support.postgres import open_directory
from tests.support.remnants import processes_of

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.postgres]
ROLES = ("worker", "gateway", "controller")
REFUSED = 3
NEWER = "insert into deepline.migrations (number, name, checksum) values (9999, 'later', 'x')"
OURS = "select count(*) from pg_namespace where nspname in ('deepline', 'absurd')"
EVERYTHING = """
    select (select count(*) from pg_class), (select count(*) from pg_proc),
           (select coalesce(max(number), 0) from deepline.migrations),
           (select count(*) from deepline.lanes), (select count(*) from deepline.workers)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory in which nothing may appear and to which no process may belong."""
    with open_directory() as directory:
        yield directory
        assert not list(directory.iterdir())
        assert not processes_of(directory)


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


def refusal(role: str, values: Mapping[str, str]) -> str:
    """The one line with which a role refuses to start."""
    ended = deepline(role, extra=values)
    assert ended.returncode == REFUSED, ended.stderr
    assert ended.stdout == ""
    [line] = lines(ended.stderr)
    assert line.startswith("deepline: ")
    return line


def asked(dsn: str, statement: str) -> object:
    """What the database answers."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchone()


@pytest.mark.parametrize("role", ROLES)
def test_a_taken_port(role: str, place: Path, taken_port: int, migrated_database: str) -> None:
    """The line names the port, and the database is as it was."""
    before = asked(migrated_database, EVERYTHING)
    ports = {"DEEPLINE_GATEWAY_PORT": str(taken_port), "DEEPLINE_METRICS_PORT": str(taken_port)}

    line = refusal(role, variables(migrated_database, place / "home") | ports)

    assert f"127.0.0.1:{taken_port} is in use" in line
    assert asked(migrated_database, EVERYTHING) == before


@pytest.mark.parametrize("role", ROLES)
def test_a_newer_database(role: str, place: Path, migrated_database: str) -> None:
    """The line says to upgrade, and the database is as it was."""
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        connection.execute(NEWER.encode())
    before = asked(migrated_database, EVERYTHING)

    line = refusal(role, variables(migrated_database, place / "home"))

    assert "newer than this release knows; upgrade" in line
    assert asked(migrated_database, EVERYTHING) == before


@pytest.mark.parametrize("role", ROLES)
def test_a_database_that_was_never_migrated(role: str, place: Path, database: str) -> None:
    """The line names the command to run, and no table is made."""
    line = refusal(role, variables(database, place / "home"))

    assert "run `deepline migrate`" in line
    assert asked(database, OURS) == (0,)


@pytest.mark.parametrize(
    ("role", "names"),
    [
        pytest.param(
            "worker",
            "WORKFLOW_RUNTIME_POSTGRES, DEEPLINE_INTERNAL_TOKEN,"
            " DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL",
            id="worker",
        ),
        pytest.param(
            "gateway",
            "WORKFLOW_RUNTIME_POSTGRES, DEEPLINE_INTERNAL_TOKEN, DEEPLINE_SIGNING_KEY",
            id="gateway",
        ),
        pytest.param(
            "controller", "WORKFLOW_RUNTIME_POSTGRES, DEEPLINE_INTERNAL_TOKEN", id="controller"
        ),
        pytest.param("migrate", "WORKFLOW_RUNTIME_POSTGRES", id="migrate"),
    ],
)
def test_missing_variables(role: str, names: str, place: Path) -> None:
    """The line names all of them at once."""
    home = {"DEEPLINE_HOME": str(place / "home"), "DEEPLINE_PLAY_RUNNER_BACKEND": "local"}

    assert f"missing required environment: {names} (" in refusal(role, home)
