"""Where an embedded server keeps its things, and how that directory comes to be.

    directory/
      data/          the cluster, private to the server's account
      run/           the Unix socket; whoever may enter may connect
      binaries/      a copy of the programs, only when the account can't reach the installed ones
      start.lock     held while somebody starts or stops the server
      users.lock     held, shared, by everybody who uses the server

Access: the server listens on its Unix socket alone, in a directory that only its account (and
root) may enter, and asks for no password there. Everybody who could read a password file of that
account could read the data as well, so a password would add a secret to lose and no protection.
"""

import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

import attrs
import trio

from deepline.adapters.postgres.embedded.account import ServerAccount, first_closed_directory
from deepline.adapters.postgres.embedded.binaries import Binaries
from deepline.ports.errors import Refused

SUPERUSER = "deepline"
SOCKET_PORT = 5432
_SOCKET_PATH_BYTES_MAX = 100  # the kernels' limit is 104 (macOS) or 108 (Linux), NUL included
_SETTINGS_FILE = "deepline.conf"


@attrs.frozen
class Layout:
    """The paths of one embedded server."""

    directory: Path
    account: ServerAccount

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.data / "server.log"

    @property
    def copies(self) -> Path:
        return self.directory / "binaries"

    @property
    def start_lock(self) -> Path:
        return self.directory / "start.lock"

    @property
    def users_lock(self) -> Path:
        return self.directory / "users.lock"

    @property
    def sockets(self) -> Path:
        """A directory for the socket, elsewhere when this path is too long for a socket."""
        beside = self.directory / "run"
        if len(os.fsencode(beside / f".s.PGSQL.{SOCKET_PORT}")) <= _SOCKET_PATH_BYTES_MAX:
            return beside
        name = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"deepline-{name}"


def ensure_directory(layout: Layout) -> None:
    """Make the directory of everything. Raises Refused when it is closed to the account."""
    mode = 0o755 if layout.account.switched else 0o700
    layout.directory.mkdir(mode=mode, parents=True, exist_ok=True)
    if closed := first_closed_directory(layout.directory, layout.account):
        raise Refused(
            "embedded_postgres_directory",
            f"{closed} is closed to the account that runs Postgres. As root, choose a directory "
            f"that others may enter, such as /var/lib/deepline, instead of {layout.directory}.",
        )


def ensure_sockets(layout: Layout) -> None:
    """Make the directory of the socket. Raises Refused when it is not the account's alone.

    Call it under the start lock: others may be starting, too.
    """
    sockets = layout.sockets
    if not sockets.exists():
        sockets.mkdir(mode=0o700)
        layout.account.own(sockets)
    owner = sockets.lstat()
    private = stat.S_ISDIR(owner.st_mode) and not owner.st_mode & 0o077
    if owner.st_uid != layout.account.uid or not private:
        raise Refused(
            "embedded_postgres_directory",
            f"{sockets} must be a private directory of the account that runs Postgres (mode 0700, "
            f"user id {layout.account.uid}). Remove it and start again.",
        )


async def ensure_cluster(layout: Layout, binaries: Binaries, settings: Mapping[str, str]) -> None:
    """Make the cluster if there is none, and write its settings.

    Raises Refused when the data belong to another major version or initdb fails.
    """
    version_file = layout.data / "PG_VERSION"
    if not version_file.exists():
        await _initialise(layout, binaries, durable=settings.get("fsync") != "off")
    found = version_file.read_text().strip()
    if found != str(binaries.major):
        raise Refused(
            "embedded_postgres_version",
            f"{layout.data} was made by Postgres {found}, and the programs here are Postgres "
            f"{binaries.major}. Use Postgres {found} programs, or move the data with pg_dump.",
        )
    _write_settings(layout, settings)


async def _initialise(layout: Layout, binaries: Binaries, *, durable: bool) -> None:
    if layout.data.exists() and any(layout.data.iterdir()):
        raise Refused(
            "embedded_postgres_directory",
            f"{layout.data} holds something that is no Postgres data. Choose another directory.",
        )
    # initdb works beside the final place, so that a start that was killed leaves no half cluster.
    unfinished = layout.directory / "data.unfinished"
    await trio.run_process(["rm", "-rf", "--", str(unfinished)])
    unfinished.mkdir(mode=0o700)
    layout.account.own(unfinished)
    made = await trio.run_process(
        [
            str(binaries.directory / "initdb"),
            f"--pgdata={unfinished}",
            f"--username={SUPERUSER}",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
            "--no-instructions",
            *([] if durable else ["--no-sync"]),
        ],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        env=server_environment(),
        **layout.account.process_options,
    )
    if made.returncode != 0:
        raise Refused(
            "embedded_postgres_initdb",
            f"initdb failed: {made.stderr.decode(errors='replace').strip()[-1000:]}",
        )
    (unfinished / "pg_hba.conf").write_text("local all all trust\n")
    with (unfinished / "postgresql.conf").open("a") as configuration:
        configuration.write(f"include '{_SETTINGS_FILE}'\n")
    # Files made here by root are only read by the server, and never written by it.
    unfinished.rename(layout.data)


def server_environment() -> dict[str, str]:
    """The variables that Postgres programs see: none of ours may point them elsewhere."""
    kept = ("PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}


def _write_settings(layout: Layout, settings: Mapping[str, str]) -> None:
    chosen = {
        "listen_addresses": "",
        "port": str(SOCKET_PORT),
        "unix_socket_directories": str(layout.sockets),
        "unix_socket_permissions": "0700",
        # Ranks above ERROR in Postgres' order: a failed statement is the client's to report, and
        # its text may hold values that belong in no log.
        "log_min_messages": "log",
        "log_checkpoints": "off",
        "timezone": "UTC",
        "log_timezone": "UTC",
    } | dict(settings)
    lines = [f"{name} = '{_quoted(value)}'\n" for name, value in chosen.items()]
    (layout.data / _SETTINGS_FILE).write_text("".join(lines))


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")
