"""`deepline up` as a user runs it: real processes, real database, real signals."""

import os
import shutil
import signal
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
import trio

from deepline import ApiAddress, ApiClient, SubmitRequest
from deepline.adapters.postgres.embedded import EmbeddedPostgres
from deepline.adapters.runner_bundle import bundle_play
from deepline.core.model.identity import RunId
from deepline.testing.emulators import DaytonaEmulator, ModalEmulator
from tests.cli.commands import deepline, lines
from tests.cli.deployments import LIMIT_S, ask
from tests.cli.running import UNPRIVILEGED, nothing_left, running
from tests.cli.test_roles import NEWER
from tests.support.postgres import open_directory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks into /proc"),
]


@pytest.fixture
def home() -> Iterator[Path]:
    """A data directory that another account may enter, as root needs."""
    with open_directory() as directory:
        yield directory / "home"


def url_of(line: str) -> str:
    """The address in what `up` prints."""
    assert line.startswith("deepline is up at http://127.0.0.1:")
    return line.split()[4].rstrip(";")


def test_up_is_ready_and_leaves_nothing_behind(home: Path) -> None:
    """One line says where it is; the key is private; SIGTERM ends it in order with 0."""
    with running("up", "--port", "0", home=home) as one:
        line = one.line()
        url = url_of(line)
        ready = trio.run(ask, f"{url}/readyz")
        metrics = trio.run(ask, f"{url}/metrics").body
        announced = (home / "address").read_text().strip()
        one.signal(signal.SIGTERM)
        code, errors = one.end()

    assert (code, errors) == (0, "")
    assert ready.status == 200
    assert announced == url
    assert str(home / "api-key") in line
    assert 'deepline_absurd_runtime_worker_info{schema="deepline"' in metrics
    for name in ("api-key", "internal-token", "signing-key.pem", "secrets-key"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600
    assert nothing_left(home)
    assert not (home / "address").exists()
    assert not (home / "postgres" / "data" / "postmaster.pid").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_up_runs_without_privileges(home: Path) -> None:
    """The account needs nothing but a directory of its own."""
    home.mkdir()
    shutil.chown(home, "nobody", "nogroup")

    with running("up", "--port", "0", home=home, before=UNPRIVILEGED) as one:
        url = url_of(one.line())
        ready = trio.run(ask, f"{url}/readyz")
        one.signal(signal.SIGINT)
        code, errors = one.end()

    assert (code, errors) == (0, "")
    assert ready.status == 200
    assert (home / "postgres" / "data").stat().st_uid != 0
    assert nothing_left(home)


def test_a_run_goes_through_and_the_next_start_still_knows_it(home: Path) -> None:
    """The same directory is the same deployment, also after a kill; no log shows a secret."""
    told = {"DEEPLINE_LOG_LEVEL": "info"}
    play = home.parent / "hello.py"
    play.write_text("def play(ctx, input):\n    return {'hello': input['name']}\n")

    with running("up", "--port", "0", home=home, extra=told) as one:
        shown = trio.run(submit_and_wait, home, url_of(one.line()), play)
        one.signal(signal.SIGKILL)
        _, logged = one.end()
        with running("up", "--port", "0", home=home) as two:
            again = trio.run(show, home, url_of(two.line()), RunId(str(shown["runId"])))
            two.signal(signal.SIGTERM)
            code, _ = two.end()

    assert shown["status"] == again["status"] == "completed"
    assert shown["result"]["output"] == {"hello": "you"}  # type: ignore[index]
    assert code == 0
    assert nothing_left(home)
    assert "terminal_committed" in logged
    for name in ("api-key", "internal-token", "signing-key.pem"):
        for line in (home / name).read_text().splitlines():
            assert line.startswith("-----") or line not in logged


@pytest.mark.parametrize("provider", ["daytona-emulator", "modal-emulator"])
def test_a_run_at_an_emulated_vendor(home: Path, provider: str) -> None:
    """The run goes through a sandbox of the vendor's, of which nothing is left."""
    play = home.parent / "hello.py"
    play.write_text("def play(ctx, input):\n    return {'hello': input['name']}\n")

    with running("up", "--port", "0", "--provider", provider, home=home) as one:
        shown = trio.run(submit_and_wait, home, url_of(one.line()), play)
        used, alive = wait_until_deleted(home, provider)
        one.signal(signal.SIGTERM)
        code, errors = one.end()

    assert (code, errors) == (0, "")
    assert shown["status"] == "completed"
    assert shown["result"]["output"] == {"hello": "you"}  # type: ignore[index]
    assert (used, alive) == (1, 0)
    assert nothing_left(home)
    assert not (home / provider / "address").exists()


def wait_until_deleted(home: Path, provider: str) -> tuple[int, int]:
    """How many sandboxes there were at the emulator, and how many are still there."""
    url = (home / provider / "address").read_text().strip()
    emulator = (
        DaytonaEmulator(url)
        if provider == "daytona-emulator"
        else ModalEmulator(url, home / provider)
    )
    until = time.monotonic() + LIMIT_S
    while emulator.sandboxes() and time.monotonic() < until:
        time.sleep(0.05)
    return len(emulator.sandboxes(alive=False)), len(emulator.sandboxes())


@pytest.mark.parametrize(
    ("provider", "credentials"),
    [
        pytest.param("daytona", ["DAYTONA_API_KEY"], id="daytona"),
        pytest.param("modal", ["MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"], id="modal"),
    ],
)
def test_a_vendor_without_credentials(
    tmp_path: Path, provider: str, credentials: Sequence[str]
) -> None:
    """One line names every variable that is missing, and nothing is made."""
    home = tmp_path / "home"
    told = {"DEEPLINE_HOME": str(home), "TMPDIR": str(tmp_path)}

    said = deepline("up", "--provider", provider, extra=told)
    again = deepline(
        "up", "--provider", provider, extra={**told, "DEEPLINE_PUBLIC_URL": "https://runs.example"}
    )

    assert (said.returncode, again.returncode) == (3, 3)
    assert said.stdout == again.stdout == ""
    ((line,), (other,)) = said.stderr.splitlines(), again.stderr.splitlines()
    assert all(name in line for name in (*credentials, "DEEPLINE_PUBLIC_URL"))
    assert all(name in other for name in credentials)
    assert "DEEPLINE_PUBLIC_URL" not in other
    assert list(tmp_path.iterdir()) == []


@pytest.mark.postgres
def test_up_works_on_a_database_of_the_users_own(database: str, home: Path) -> None:
    """It is migrated and used, and none is started beside it."""
    own = {"WORKFLOW_RUNTIME_POSTGRES": database}

    with running("up", "--port", "0", home=home, extra=own) as one:
        ready = trio.run(ask, f"{url_of(one.line())}/readyz")
        one.signal(signal.SIGTERM)
        code, errors = one.end()

    assert (code, errors, ready.status) == (0, "", 200)
    assert not (home / "postgres").exists()


def test_a_second_signal_ends_at_once(home: Path) -> None:
    """The code says that it was cut short; the database is stopped all the same."""
    with running("up", "--port", "0", home=home) as one:
        one.line()
        one.signal(signal.SIGTERM, signal.SIGINT)
        code, errors = one.end()

    assert code == 130
    assert errors == ""
    assert nothing_left(home)


def test_a_taken_port_refuses_before_anything_is_made(home: Path) -> None:
    """One line, code 3, and not even a directory."""
    with running("up", "--port", "0", home=home) as one:
        port = url_of(one.line()).rpartition(":")[2]
        other = home.parent / "other"
        refused = deepline("up", "--port", port, "--data-dir", str(other))

    assert refused.returncode == 3
    [line] = lines(refused.stderr)
    assert f"127.0.0.1:{port} is in use" in line
    assert refused.stdout == ""
    assert not other.exists()


def test_a_database_of_a_newer_release_is_left_alone(home: Path) -> None:
    """One line, code 3, no server left running, and the data as they were."""
    with running("up", "--port", "0", home=home) as one:
        one.line()
        one.signal(signal.SIGTERM)
        one.end()
    execute_embedded(home, NEWER)

    refused = deepline("up", "--port", "0", extra={"DEEPLINE_HOME": str(home)})

    assert refused.returncode == 3
    [line] = lines(refused.stderr)
    assert "newer than this release knows" in line
    assert nothing_left(home)
    assert execute_embedded(home, "select max(number) from deepline.migrations") == [(9999,)]


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"DEEPLINE_WORKER_SLOTS": "none"}, "DEEPLINE_WORKER_SLOTS must be"),
        ({"DEEPLINE_PLAY_RUNNER_BACKEND": "modal"}, "MODAL_TOKEN_ID, MODAL_TOKEN_SECRET"),
        ({"DEEPLINE_METRICS_PORT": "no"}, "DEEPLINE_METRICS_PORT must be"),
    ],
)
def test_wrong_settings_refuse_before_anything_is_made(
    extra: dict[str, str], says: str, home: Path
) -> None:
    """`up` is held to the settings of its roles, before it makes anything."""
    refused = deepline("up", "--port", "0", extra={"DEEPLINE_HOME": str(home)} | extra)

    assert refused.returncode == 3
    [line] = lines(refused.stderr)
    assert says in line
    assert not home.exists()


async def submit_and_wait(home: Path, url: str, play: Path) -> dict[str, object]:
    """Submit a play as a person does, and wait for its end."""
    bundle = bundle_play(play)
    with trio.fail_after(LIMIT_S):
        async with ApiClient(ApiAddress(url, (home / "api-key").read_text().strip())) as client:
            await client.put_bundle(bundle.content)
            receipt = await client.submit(
                SubmitRequest(
                    play_name=bundle.play_name,
                    bundle_hash=bundle.sha256,
                    input_json={"name": "you"},
                    options={"entry": bundle.entry},
                )
            )
            return dict(await client.wait(receipt.run_id))


async def show(home: Path, url: str, run_id: RunId) -> dict[str, object]:
    """What the gateway says of a run."""
    async with ApiClient(ApiAddress(url, (home / "api-key").read_text().strip())) as client:
        return dict(await client.show(run_id))


def execute_embedded(home: Path, statement: str) -> list[tuple[object, ...]]:
    """Run one statement in the embedded database, which is started for it."""
    server = EmbeddedPostgres(home / "postgres")
    trio.run(server.start)
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []
    finally:
        trio.run(server.stop)
