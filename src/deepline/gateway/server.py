"""Serving the application: hypercorn's Trio worker on listeners of our own (DESIGN: gateway).

hypercorn sends under a shield without a limit, so one client that stops reading would hold up a
stop for ever. Each connection is therefore wrapped: a peer that takes nothing for a while is cut
off. Listeners of our own also tell the port that was bound, and refuse a taken one in words.
"""

import errno
import logging
from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from starlette.applications import Starlette

_KEEP_ALIVE_S = 75.0
_APP_QUEUE = 16
_BACKLOG = 1_024
_SEND_SLICE = 64 << 10
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
_NO_ROOM_PAUSE_S = 0.1
_log = logging.getLogger("deepline.gateway.server")


class PortUnavailable(Exception):
    """The address cannot be listened on; the message says what to do."""


@attrs.frozen(kw_only=True)
class ServerLimits:
    """How patient the server is; all in seconds but `connections`."""

    drain_s: float = 10.0
    """How long requests in hand may go on after a request to stop."""
    stall_s: float = 30.0
    """How long a peer may take none of an answer before it is cut off."""
    connections: int = 4_096
    """Connections served at once; further ones wait in the kernel's queue."""


@attrs.frozen
class BoundListeners:
    """Open listeners and a URL at which they can be reached from this machine."""

    listeners: Sequence[trio.SocketListener] = attrs.field(repr=False)
    url: str

    async def aclose(self) -> None:
        """Close them, if they are not served."""
        for listener in self.listeners:
            await listener.aclose()


async def open_gateway_listeners(host: str, port: int) -> BoundListeners:
    """Listen on `host` and `port`, 0 for any free one. Raises `PortUnavailable`."""
    try:
        listeners = await trio.open_tcp_listeners(port, host=host, backlog=_BACKLOG)
    except OSError as error:
        raise PortUnavailable(_advice(host, port, error)) from error
    if port == 0:
        # A name with several addresses would get another free port for each of them.
        for spare in listeners[1:]:
            await spare.aclose()
        del listeners[1:]
    return BoundListeners(listeners, _url_of(listeners[0]))


async def serve_gateway(  # noqa: ASYNC128 - serve_bound reports for it
    app: Starlette,
    host: str,
    port: int,
    *,
    shutdown_trigger: Callable[[], Awaitable[None]] | None = None,
    limits: ServerLimits | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled or until `shutdown_trigger` returns, then drain.

    Reports the URL through `task_status`. Raises `PortUnavailable`. When it returns, no request
    is in hand any more.
    """
    bound = await open_gateway_listeners(host, port)
    await serve_bound(
        app, bound, shutdown_trigger=shutdown_trigger, limits=limits, task_status=task_status
    )


async def serve_bound(
    app: Starlette,
    bound: BoundListeners,
    *,
    shutdown_trigger: Callable[[], Awaitable[None]] | None = None,
    limits: ServerLimits | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on listeners opened before, as `serve_gateway` does; closes them in the end.

    Stopping is gentle: no new connections, watchers are let go, then requests in hand have
    `drain_s` before they are cancelled. Store writes in hand finish even then, within their bound.
    """
    server = _Server(app, ServerLimits() if limits is None else limits)
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            for listener in bound.listeners:
                accepting.start_soon(server.accept, listener, connections)
            task_status.started(bound.url)
            await _until_stopped(shutdown_trigger)
            accepting.cancel_scope.cancel(reason="the gateway stops")
        app.state.draining.set()
        await server.let_idle_connections_go()
        connections.cancel_scope.deadline = trio.current_time() + server.limits.drain_s


async def _until_stopped(shutdown_trigger: Callable[[], Awaitable[None]] | None) -> None:
    if shutdown_trigger is None:
        await trio.sleep_forever()
    else:
        await shutdown_trigger()


def _url_of(listener: trio.SocketListener) -> str:
    host, port = listener.socket.getsockname()[:2]
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not bound
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


class _Server:
    """What all connections of one serving share."""

    def __init__(self, app: Starlette, limits: ServerLimits) -> None:
        self.limits = limits
        self._config = _config()
        self._app = ASGIWrapper(app)  # type: ignore[arg-type]  # the two spell ASGI differently
        self._context = WorkerContext(None)
        self._places = trio.Semaphore(limits.connections)

    async def accept(self, listener: trio.SocketListener, connections: trio.Nursery) -> None:
        """Accept while there are places; closes the listener when cancelled."""
        async with listener:
            while True:
                await self._places.acquire()
                try:
                    stream = await self._accept_one(listener)
                    connections.start_soon(self._serve, stream)
                except BaseException:
                    self._places.release()
                    raise

    async def let_idle_connections_go(self) -> None:
        """Close connections without a request in hand, now and as requests end."""
        await self._context.terminated.set()

    async def _accept_one(self, listener: trio.SocketListener) -> trio.SocketStream:
        while True:
            try:
                return await listener.accept()
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                _log.warning("no file descriptors or memory for a connection; waiting for some")
                await trio.sleep(_NO_ROOM_PAUSE_S)

    async def _serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection; whatever goes wrong with it concerns no other."""
        patient = PatientStream(stream, self.limits.stall_s)
        state = ConnectionState({})
        try:
            await _Connection(
                self._app,
                self._config,
                self._context,
                state,
                patient,  # type: ignore[arg-type]  # it needs no more of a stream than this has
            ).run()
        except Exception as error:  # noqa: BLE001 - one connection must not end the server
            _log.warning("a connection failed: %s", type(error).__name__)
        finally:
            self._places.release()
            await trio.aclose_forcefully(stream)


class _Connection(TCPServer):
    """A connection that is over when its peer has hung up, rather than when its idle time is."""

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()


class PatientStream:
    """A socket stream whose peer must take what is sent within `stall_s`, or is cut off."""

    def __init__(self, stream: trio.SocketStream, stall_s: float) -> None:
        self._stream = stream
        self._stall_s = stall_s
        self.socket = stream.socket

    async def send_all(self, data: bytes) -> None:
        """Send a part of an answer. Raises `BrokenResourceError` when the peer takes none."""
        view = memoryview(data)
        for start in range(0, len(view), _SEND_SLICE):
            with trio.move_on_after(self._stall_s) as scope:
                await self._stream.send_all(view[start : start + _SEND_SLICE])
            if scope.cancelled_caught:
                await trio.aclose_forcefully(self._stream)
                raise trio.BrokenResourceError("the peer takes nothing")

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive what there is."""
        return await self._stream.receive_some(max_bytes)

    async def send_eof(self) -> None:
        """Say that no more will be sent."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()


def _config() -> Config:
    config = Config()
    config.include_server_header = False
    config.keep_alive_timeout = _KEEP_ALIVE_S
    config.max_app_queue_size = _APP_QUEUE
    config.accesslog = None
    config.errorlog = _log
    return config


def _advice(host: str, port: int, error: OSError) -> str:
    place = f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"{place} is in use by another program; stop it, or choose another port "
            "(0 takes any free one)"
        )
    if error.errno == errno.EACCES:
        return f"{place} needs privileges this process has not; choose a port above 1023"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine; listen on 127.0.0.1 or 0.0.0.0"
    return f"cannot listen on {place}: {error.strerror or 'unknown address'}; check host and port"
