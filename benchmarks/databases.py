"""The server that benchmarks run on, and an equal database for each round."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import trio
from psycopg import sql

from deepline.adapters.postgres.embedded import EmbeddedPostgres
from deepline.adapters.postgres.migrate import migrate
from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.settings import ConnectionSettings
from deepline.adapters.postgres.store import open_store
from deepline.core.model.identity import Lane

LANE = Lane("runs")
"""Our queue and the reference's have the same name, each in its own database."""


class Databases:
    """A server with every fact kept (fsync on), and templates of both sides' databases.

    Ours is migrated and has the lane; the reference's is the engine as it installs itself.
    """

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._admin = psycopg.connect(server.dsn(), autocommit=True)
        self._numbers = count(1)
        self._create("ours", "template0")
        trio.run(_prepare_ours, server.dsn("ours"))
        self._create("reference", "template0")
        trio.run(migrate, server.dsn("reference"))
        with psycopg.connect(server.dsn("reference"), autocommit=True) as reference:
            reference.execute("select absurd.create_queue(%s)", (LANE,))

    @contextmanager
    def ours(self) -> Iterator[str]:
        """A fresh database of ours; yields its DSN."""
        with self._copy_of("ours") as dsn:
            yield dsn

    @contextmanager
    def reference(self) -> Iterator[str]:
        """A fresh database of the engine alone; yields its DSN."""
        with self._copy_of("reference") as dsn:
            yield dsn

    def transactions(self, dsn: str) -> int:
        """How many transactions the sessions of a database have ended so far."""
        name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
        row = self._admin.execute(
            "select xact_commit + xact_rollback from pg_stat_database where datname = %s", (name,)
        ).fetchone()
        assert row is not None
        return int(row[0])

    @contextmanager
    def _copy_of(self, template: str) -> Iterator[str]:
        name = f"{template}_{next(self._numbers)}"
        self._create(name, template)
        try:
            yield self._server.dsn(name)
        finally:
            self._admin.execute(
                sql.SQL("drop database {} with (force)").format(sql.Identifier(name))
            )
            # What the other side left unwritten must not be paid for in the next round.
            self._admin.execute("checkpoint")

    def _create(self, name: str, template: str) -> None:
        self._admin.execute(
            sql.SQL("create database {} template {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )

    def close(self) -> None:
        """Let go of the server."""
        self._admin.close()


@contextmanager
def databases(settings: Mapping[str, str] | None = None) -> Iterator[Databases]:
    """A server of its own in a temporary directory, removed afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="deepline-benchmark-"))
    directory.chmod(0o755)  # as root the server runs under another account
    server = EmbeddedPostgres(directory / "postgres", settings=settings)
    try:
        trio.run(server.start)
        made = Databases(server)
        try:
            yield made
        finally:
            made.close()
    finally:
        trio.run(server.stop)
        shutil.rmtree(directory, ignore_errors=True)


async def _prepare_ours(dsn: str) -> None:
    await migrate(dsn)
    settings = ConnectionSettings(dsn=dsn)
    async with (
        ConnectionPool.to(settings) as pool,
        open_store(pool, listening=settings) as store,
    ):
        await store.admission.ensure_lane(LANE, None)
