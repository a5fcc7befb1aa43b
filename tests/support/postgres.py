"""The database server of the test suite: one a session, with a fresh database for each test.

Ask for the fixture `database` (empty) or `migrated_database` (our schema in it); each yields a
DSN. Anything else that many tests need in their database can be made once:

    WITH_QUEUE = Template("with_queue", prepare=create_queue)   # async def create_queue(dsn)

    @pytest.fixture
    def queue_database(postgres):
        with postgres.database(WITH_QUEUE) as dsn:
            yield dsn

The server forgoes durability for speed. Tests that need fsync start an EmbeddedPostgres.
"""

import importlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import attrs
import psycopg
import trio
from psycopg import sql

from deepline.adapters.postgres.embedded import EmbeddedPostgres

_PREFIX = "deepline-tests-"
_FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "jit": "off",
}


@attrs.frozen
class Template:
    """A database that is prepared once a session and copied for each test that asks for it."""

    name: str
    prepare: Callable[[str], Awaitable[object]]


async def _migrate(dsn: str) -> None:
    # Looked up late: tests of the connection alone must not need the store.
    await importlib.import_module("deepline.adapters.postgres.migrate").migrate(dsn)


MIGRATED = Template("migrated", prepare=_migrate)


class DatabaseServer:
    """The session's server: hands out databases and takes them back."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._admin = psycopg.connect(server.dsn(), autocommit=True)
        self._numbers = count(1)
        self._templates: dict[Template, str] = {}
        self._preparing = threading.Lock()

    def close(self) -> None:
        self._admin.close()

    def dsn(self, database: str) -> str:
        return self._server.dsn(database)

    @contextmanager
    def database(self, template: Template | None = None) -> Iterator[str]:
        """A database for the length of a block, empty or copied from a template. Yields its DSN."""
        name = f"test_{next(self._numbers)}"
        with self._preparing:
            prepared = self._prepared(template) if template else "template0"
        self._create(name, prepared)
        try:
            yield self.dsn(name)
        finally:
            self._drop(name)

    def _prepared(self, template: Template) -> str:
        if template not in self._templates:
            name = f"template_{template.name}"
            self._create(name, "template0")
            try:
                trio.run(partial(_prepare, template, self.dsn(name)))
            except BaseException:
                self._drop(name)
                raise
            self._templates[template] = name
        return self._templates[template]

    def _create(self, name: str, template: str) -> None:
        self._admin.execute(
            sql.SQL("create database {} template {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )

    def _drop(self, name: str) -> None:
        # FORCE ends sessions that a failed test left behind.
        self._admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


async def _prepare(template: Template, dsn: str) -> None:
    with trio.fail_after(60):
        await template.prepare(dsn)


@contextmanager
def open_directory() -> Iterator[Path]:
    """A temporary directory that another account may enter, as Postgres needs when we are root."""
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    if os.geteuid() == 0:
        directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def session_server() -> Iterator[DatabaseServer]:
    """The server for one test session; stopped and removed however the session ends."""
    with open_directory() as directory, _removed_even_if_killed(directory):
        embedded = EmbeddedPostgres(directory / "postgres", settings=_FAST)
        trio.run(embedded.start)
        try:
            server = DatabaseServer(embedded)
            try:
                yield server
            finally:
                server.close()
        finally:
            trio.run(embedded.stop)


# Its input ends with the test session, however that ends. After an orderly end there is nothing
# left to do.
_UNDERTAKER = """
cat
if read -r pid < "$1/postgres/data/postmaster.pid"; then
    kill -INT "$pid"
    for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$pid" || break; sleep 0.5; done
fi
rm -rf -- "$1"
"""


@contextmanager
def _removed_even_if_killed(directory: Path) -> Iterator[None]:
    """Stop the server and remove the directory even when this process is killed."""
    with subprocess.Popen(
        ["/bin/sh", "-c", _UNDERTAKER, "sh", str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the tests
    ):
        yield
