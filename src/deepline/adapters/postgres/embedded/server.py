"""Starts, shares and stops a Postgres server in a directory.

Several processes may use one directory: the first starts the server, the others join it, and the
last to leave stops it. A user that was killed has left, so a server that its starter left behind
is joined by the next start and stopped by the next stop.

The server is started by pg_ctl in a session of its own: neither Ctrl-C in our terminal nor our
death may stop it while runs still write their last facts.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import trio

from deepline.adapters.postgres.embedded.account import choose_account
from deepline.adapters.postgres.embedded.binaries import (
    Binaries,
    configured_binaries,
    find_binaries,
)
from deepline.adapters.postgres.embedded.layout import (
    SOCKET_PORT,
    SUPERUSER,
    Layout,
    ensure_cluster,
    ensure_directory,
    ensure_sockets,
    server_environment,
)
from deepline.adapters.postgres.embedded.locks import SharedLock, exclusive
from deepline.adapters.postgres.embedded.postmaster import (
    can_tell,
    pid_file,
    processes_on,
    running_postmaster,
)
from deepline.ports.errors import Refused

DEFAULT_DATABASE = "postgres"
_POLL_S = 0.05
_START_S = 60
_FAST_STOP_S = 20
_IMMEDIATE_STOP_S = 10
_ORPHANS_S = 30
_LEAVE_S = 40
_LOG_BYTES_MAX = 8 * 1024 * 1024


class EmbeddedPostgres:
    """One server in one directory. Not bound to an event loop: each call may be its own trio.run.

    `settings` are Postgres parameters added to ours, such as {"fsync": "off"}; they hold for the
    server that this object starts, not for one that it joins.
    """

    def __init__(
        self,
        directory: Path,
        *,
        settings: Mapping[str, str] | None = None,
        binaries: Path | None = None,
    ) -> None:
        directory = directory.absolute()
        self._layout = Layout(directory, choose_account(directory / "data"))
        self._settings = dict(settings or {})
        configured = binaries or configured_binaries()
        self._configured = configured and configured.absolute()
        self._users = SharedLock(self._layout.users_lock)

    @property
    def data(self) -> Path:
        """The cluster's own directory."""
        return self._layout.data

    def dsn(self, database: str = DEFAULT_DATABASE) -> str:
        """How to reach a database of the server; holds no secret."""
        host = quote(str(self._layout.sockets), safe="")
        port = self._settings.get("port", SOCKET_PORT)
        return f"postgresql://{SUPERUSER}@/{quote(database)}?host={host}&port={port}"

    async def start(self) -> None:
        """Start the server, or join the one that runs on this directory already.

        Raises Refused with a remedy when that can't work. Cancelled or failed, it leaves nothing
        running that was not running before; a cancellation waits for a server that is coming up.
        """
        ensure_directory(self._layout)
        async with exclusive(self._layout.start_lock):
            ensure_sockets(self._layout)
            self._users.acquire()
            try:
                binaries = await self._binaries()
                await ensure_cluster(self._layout, binaries, self._settings)
                if not await self._joined():
                    await self._launch(binaries)
                    await trio.lowlevel.checkpoint_if_cancelled()
            except BaseException:
                with trio.move_on_after(_LEAVE_S, shield=True):
                    await self._leave()
                raise

    async def stop(self) -> None:
        """Leave, and stop the server unless somebody else uses it. Harmless when not started."""
        if not self._layout.directory.exists():
            return
        async with exclusive(self._layout.start_lock):
            await self._leave()

    async def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop and start the server under everybody's feet; `immediate` is a crash."""
        async with exclusive(self._layout.start_lock):
            binaries = await self._binaries()
            await self._shut_down(binaries, mode)
            await self._launch(binaries)

    async def _binaries(self) -> Binaries:
        return await find_binaries(self._layout.account, self._layout.copies, self._configured)

    async def _joined(self) -> bool:
        """Whether a server runs here; waits while it is on its way up or down."""
        with trio.move_on_after(_START_S):
            while (postmaster := running_postmaster(self._layout.data)) is not None:
                if postmaster.ready:
                    return True
                await trio.sleep(_POLL_S)
            await self._clear_stale_files()
            return False
        raise Refused(
            "embedded_postgres_start",
            f"The server on {self._layout.data} has been neither ready nor gone for {_START_S} s. "
            f"Look into {self._layout.log}.",
        )

    async def _clear_stale_files(self) -> None:
        """Remove the lock files of a dead server, once nothing of it works on the data.

        Postgres itself would believe a process number that another process of this account has by
        now, or a killed server that its parent has not buried. The files also guard the data
        against processes that outlive their postmaster, so they stay until those are gone.
        """
        stale = [pid_file(self._layout.data), *self._layout.sockets.glob(".s.PGSQL.*")]
        if not can_tell() or not any(file.exists() for file in stale):
            return
        with trio.move_on_after(_ORPHANS_S):
            while processes_on(self._layout.data):  # noqa: ASYNC110, processes send no event
                await trio.sleep(_POLL_S)
            for file in stale:
                file.unlink(missing_ok=True)
            return
        orphans = ", ".join(map(str, sorted(processes_on(self._layout.data))))
        raise Refused(
            "embedded_postgres_orphans",
            f"A killed server left processes on {self._layout.data} that do not end: {orphans}. "
            "Stop them, then start again.",
        )

    async def _launch(self, binaries: Binaries) -> None:
        log = self._layout.log
        if log.exists() and log.stat().st_size > _LOG_BYTES_MAX:
            log.unlink()
        begin = log.stat().st_size if log.exists() else 0
        code = 1
        # Not cut short: a server that is on its way up stands in no file yet, so that nobody
        # could stop it.
        with trio.move_on_after(_START_S + _POLL_S, shield=True):
            code = await self._pg_ctl(binaries, "start", f"--log={log}", f"--timeout={_START_S}")
        if code != 0:
            with log.open("rb") as lines:
                lines.seek(begin)
                said = lines.read(2000).decode(errors="replace").strip()
            raise Refused("embedded_postgres_start", f"Postgres did not start: {said}")

    async def _leave(self) -> None:
        """Give up our place, and stop the server if it was the last one."""
        if self._users.release() and running_postmaster(self._layout.data) is not None:
            await self._shut_down(await self._binaries(), "fast")

    async def _shut_down(self, binaries: Binaries, mode: Literal["fast", "immediate"]) -> None:
        limits = {"fast": _FAST_STOP_S, "immediate": _IMMEDIATE_STOP_S}
        code = await self._pg_ctl(binaries, "stop", f"--mode={mode}", f"--timeout={limits[mode]}")
        if code != 0 and mode == "fast" and running_postmaster(self._layout.data) is not None:
            # Whatever holds it up, the write-ahead log makes a hard stop safe.
            await self._shut_down(binaries, "immediate")

    async def _pg_ctl(self, binaries: Binaries, command: str, *options: str) -> int:
        program = str(binaries.directory / "pg_ctl")
        ended = await trio.run_process(
            [program, command, f"--pgdata={self._layout.data}", "--wait", "--silent", *options],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env=server_environment(),
            **self._layout.account.process_options,
        )
        return ended.returncode


@asynccontextmanager
async def embedded_postgres(
    directory: Path,
    *,
    settings: Mapping[str, str] | None = None,
    binaries: Path | None = None,
) -> AsyncIterator[EmbeddedPostgres]:
    """A server for the length of a block; stopped afterwards unless somebody else uses it."""
    server = EmbeddedPostgres(directory, settings=settings, binaries=binaries)
    await server.start()
    try:
        yield server
    finally:
        with trio.move_on_after(_LEAVE_S, shield=True):
            await server.stop()
