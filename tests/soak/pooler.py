"""PgBouncer in transaction mode in front of a database, where it is installed."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from tests.support.role_process import free_port

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


CONSOLE = "pgbouncer"
"""The database by which a pooler tells about itself."""


def told(pooled_dsn: str, what: str) -> Sequence[Mapping[str, Any]]:
    """What a pooler answers to `show ...`; asks once."""
    with psycopg.connect(make_conninfo(pooled_dsn, dbname=CONSOLE), autocommit=True) as console:
        cursor = console.cursor(row_factory=dict_row)
        return cursor.execute(f"show {what}".encode()).fetchall()


def transactions(pooled_dsn: str) -> int:
    """How many transactions of databases have gone through a pooler since it began."""
    totals = told(pooled_dsn, "stats_totals")
    return sum(int(one["xact_count"]) for one in totals if one["database"] != CONSOLE)


@contextmanager
def pooled(dsn: str, directory: Path) -> Iterator[str]:
    """A pooler for the length of a block; yields the DSN that leads through it."""
    assert PROGRAM is not None
    target = conninfo_to_dict(dsn)
    port = free_port(set())
    users = directory / "pgbouncer.users"
    users.write_text(f'"{target["user"]}" "{target.get("password", "")}"\n')
    settings = directory / "pgbouncer.ini"
    settings.write_text(
        "[databases]\n"
        f"* = host={target['host']} port={target.get('port', 5432)}\n"
        "[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = plain\nauth_file = {users}\npool_mode = transaction\n"
        f"stats_users = {target['user']}\n"
        "default_pool_size = 20\nmax_client_conn = 500\nserver_login_retry = 1\n"
        "ignore_startup_parameters = extra_float_digits,options\n"
    )
    for path in (users, settings):
        path.chmod(0o644)
    command = [PROGRAM, "-q", str(settings)]
    if os.geteuid() == 0:
        # It does not run as root, and the server's socket is its own account's.
        owner = (directory / "postgres" / "data").stat().st_uid
        command[1:1] = ["-u", pwd.getpwuid(owner).pw_name]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield (
                f"postgresql://{target['user']}:{target.get('password', '')}"
                f"@127.0.0.1:{port}/{target['dbname']}"
            )
        finally:
            process.kill()
