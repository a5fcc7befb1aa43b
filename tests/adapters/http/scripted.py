"""A server on a real socket that answers as a test tells it to, decently or not."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

import attrs
import h11
import trio


@attrs.frozen
class Asked:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    def document(self) -> dict[str, object]:
        """The body as a JSON object."""
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value


class Wire:
    """The server's end of one connection, for a script to write to."""

    def __init__(self, stream: trio.SocketStream, http: h11.Connection) -> None:
        self._stream = stream
        self._http = http

    async def head(self, status: int, **headers: str) -> None:
        """Send status line and headers; underscores in names stand for hyphens."""
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        await self._put(h11.Response(status_code=status, headers=named))

    async def part(self, data: bytes) -> None:
        """Send a part of the body."""
        await self._put(h11.Data(data=data))

    async def end(self) -> None:
        """End the body as promised by the headers."""
        await self._put(h11.EndOfMessage())

    async def raw(self, data: bytes) -> None:
        """Send bytes without any grammar."""
        await self._stream.send_all(data)

    async def cut(self) -> None:
        """Drop the connection."""
        await trio.aclose_forcefully(self._stream)

    async def reply(self, status: int, body: object, **headers: str) -> None:
        """Answer whole: text and bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if isinstance(body, str):
            data = body.encode()
        await self.head(status, content_length=str(len(data)), **headers)
        await self.part(data)
        await self.end()

    async def _put(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            await self._stream.send_all(data)


Script: TypeAlias = Callable[[Asked, Wire], Awaitable[None]]


@attrs.define
class Scripted:
    """A running server: where it is and what it was asked."""

    url: str
    asked: list[Asked] = attrs.field(factory=list)


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[Scripted]:
    """Serve `script` on a free port of loopback for the block."""
    server = Scripted("")

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            try:
                await _converse(stream, script, server)
            except (trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
                return

    async with trio.open_nursery() as nursery:
        start = partial(trio.serve_tcp, serve, 0, host="127.0.0.1")
        (listener,) = await nursery.start(start)
        server.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        yield server
        nursery.cancel_scope.cancel()


async def _converse(stream: trio.SocketStream, script: Script, server: Scripted) -> None:
    http = h11.Connection(h11.SERVER)
    while True:
        asked = await _request(stream, http)
        if asked is None:
            return
        server.asked.append(asked)
        await script(asked, Wire(stream, http))
        if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
            return
        http.start_next_cycle()


async def _request(stream: trio.SocketStream, http: h11.Connection) -> Asked | None:
    head: h11.Request | None = None
    body = b""
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await stream.receive_some())
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            headers = {name.decode(): value.decode() for name, value in head.headers}
            return Asked(head.method.decode(), head.target.decode(), headers, body)
        else:
            return None
