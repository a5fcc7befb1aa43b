"""A TCP proxy that can stop forwarding or cut, to stand for a network that does.

async with open_proxy(dsn) as proxy:
    connection = await TrioConnection.connect(proxy.dsn)
    proxy.stall()          # bytes are no longer forwarded, and nobody is told
    proxy.cut()            # every connection is reset; later ones are made as usual
    proxy.when_sent(b"COMMIT", proxy.stall_answers)
"""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

_CHUNK_BYTES = 65536
_TLS_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


class FaultyProxy:
    """Forwards to a Postgres server until told otherwise; with `tls`, it speaks TLS to clients."""

    def __init__(self, target: str, tls: ssl.SSLContext | None = None) -> None:
        self._target = conninfo_to_dict(target)
        self._tls = tls
        self._port = 0
        self._forwards_requests = True
        self._forwards_answers = True
        self._cuts: set[trio.Event] = set()
        self._trigger: tuple[bytes, Callable[[], None]] | None = None

    @property
    def dsn(self) -> str:
        """How to reach the server through the proxy."""
        return make_conninfo("", **{**self._target, "host": "127.0.0.1", "port": self._port})

    def stall(self) -> None:
        """Swallow everything from now on, in both directions."""
        self._forwards_requests = self._forwards_answers = False

    def stall_answers(self) -> None:
        """Swallow what the server says; what it is told still arrives."""
        self._forwards_answers = False

    def cut(self) -> None:
        """End every connection: no answer gets through any more."""
        for cut in self._cuts:
            cut.set()

    def when_sent(self, needle: bytes, action: Callable[[], None]) -> None:
        """Do something when these bytes go to the server, once; they still arrive there."""
        self._trigger = (needle, action)

    async def serve(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(trio.serve_tcp, self._handle, 0)
            self._port = listeners[0].socket.getsockname()[1]
            task_status.started()

    async def _handle(self, accepted: trio.SocketStream) -> None:
        try:
            client = await self._encrypted(accepted, self._tls) if self._tls else accepted
        except trio.BrokenResourceError:  # the client does not like our certificate
            await trio.aclose_forcefully(accepted)
            return
        server = await self._connect()
        cut = trio.Event()
        self._cuts.add(cut)
        try:
            async with client, server, trio.open_nursery() as nursery:
                nursery.start_soon(self._pump_requests, client, server, cut)
                nursery.start_soon(self._pump_answers, server, client, cut)
                await cut.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._cuts.remove(cut)

    @staticmethod
    async def _encrypted(client: trio.SocketStream, tls: ssl.SSLContext) -> trio.abc.Stream:
        asked = b""
        while len(asked) < len(_TLS_REQUEST):
            asked += await client.receive_some(len(_TLS_REQUEST) - len(asked))
        assert asked == _TLS_REQUEST
        await client.send_all(b"S")
        stream = trio.SSLStream(client, tls, server_side=True)
        await stream.do_handshake()
        return stream

    async def _connect(self) -> trio.SocketStream:
        host, port = str(self._target["host"]), int(str(self._target.get("port", 5432)))
        if host.startswith("/"):
            return await trio.open_unix_socket(f"{host}/.s.PGSQL.{port}")
        return await trio.open_tcp_stream(host, port)

    async def _pump_requests(
        self, source: trio.abc.Stream, sink: trio.abc.Stream, cut: trio.Event
    ) -> None:
        with suppress(*_GONE):
            while chunk := await source.receive_some(_CHUNK_BYTES):
                if not self._forwards_requests:
                    continue
                # Decided before the server sees it, or its answer might get through.
                if self._trigger is not None and self._trigger[0] in chunk:
                    (_, action), self._trigger = self._trigger, None
                    action()
                await sink.send_all(chunk)
        cut.set()

    async def _pump_answers(
        self, source: trio.abc.Stream, sink: trio.abc.Stream, cut: trio.Event
    ) -> None:
        with suppress(*_GONE):
            while chunk := await source.receive_some(_CHUNK_BYTES):
                if self._forwards_answers and not cut.is_set():
                    await sink.send_all(chunk)
        cut.set()


@asynccontextmanager
async def open_proxy(target: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[FaultyProxy]:
    """A proxy in front of the server that a DSN names, for the length of a block."""
    proxy = FaultyProxy(target, tls)
    async with trio.open_nursery() as nursery:
        await nursery.start(proxy.serve)
        yield proxy
        nursery.cancel_scope.cancel()
