"""Networks between roles and gateways that part one process from one gateway for a while.

Everybody reaches a gateway through a port that stands before it. While a process is parted from a
gateway, what it sends there and what it is sent is held back, as by a network that drops packets;
afterwards everything arrives. All others go on to reach the gateway.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import attrs
import trio

HOST = "127.0.0.1"
_CHUNK_BYTES = 65536
_LOOK_S = 0.05
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


@attrs.define(eq=False)
class Partitions:
    """The ports before the gateways `names`; `address_of` says where a gateway listens itself."""

    names: Sequence[str]
    address_of: Callable[[str], tuple[str, int]]
    urls: Mapping[str, str] = attrs.field(init=False, factory=dict[str, str])
    held: int = attrs.field(init=False, default=0)
    """How many times something was held back."""
    _parted: frozenset[tuple[str, int]] = attrs.field(init=False, default=frozenset())
    _open: threading.Event = attrs.field(init=False, factory=threading.Event)
    _over: trio.Event | None = attrs.field(init=False, default=None)
    _token: trio.lowlevel.TrioToken | None = attrs.field(init=False, default=None)

    @contextmanager
    def part(self, gateway: str, pid: int) -> Iterator[None]:
        """Keep a process from a gateway for the length of a block."""
        self._parted |= {(gateway, pid)}
        try:
            yield
        finally:
            self._parted -= {(gateway, pid)}

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Forward for the length of a block, in a thread of its own."""
        thread = threading.Thread(target=trio.run, args=(self._serve,), daemon=True)
        thread.start()
        assert self._open.wait(10)
        try:
            yield
        finally:
            assert self._token is not None
            assert self._over is not None
            self._token.run_sync_soon(self._over.set)
            thread.join(10)

    async def _serve(self) -> None:
        self._over, self._token = trio.Event(), trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            urls = {}
            for name in self.names:
                serve = partial(trio.serve_tcp, partial(self._forward, name), 0, host=HOST)
                [listener] = await nursery.start(serve)
                urls[name] = f"http://{HOST}:{listener.socket.getsockname()[1]}"
            self.urls = urls
            self._open.set()
            await self._over.wait()
            nursery.cancel_scope.cancel()

    async def _forward(self, gateway: str, client: trio.SocketStream) -> None:
        await self._passable(gateway, client)
        try:
            server = await trio.open_tcp_stream(*self.address_of(gateway))
        except OSError:
            await trio.aclose_forcefully(client)
            return
        async with client, server, trio.open_nursery() as nursery:
            nursery.start_soon(self._pump, gateway, client, (client, server), nursery.cancel_scope)
            nursery.start_soon(self._pump, gateway, client, (server, client), nursery.cancel_scope)

    async def _pump(
        self,
        gateway: str,
        client: trio.SocketStream,
        way: tuple[trio.SocketStream, trio.SocketStream],
        both: trio.CancelScope,
    ) -> None:
        source, sink = way
        with suppress(*_GONE):
            while chunk := await source.receive_some(_CHUNK_BYTES):
                await self._passable(gateway, client)
                await sink.send_all(chunk)
        both.cancel(reason="one side is gone")

    async def _passable(self, gateway: str, client: trio.SocketStream) -> None:
        """Wait while the process at the other end is parted from the gateway."""
        is_held = False
        while any(gateway == name and _holds(pid, client.socket) for name, pid in self._parted):
            self.held += not is_held
            is_held = True
            await trio.sleep(_LOOK_S)


def _holds(pid: int, ours: trio.socket.SocketType) -> bool:
    """Whether the other end of an accepted connection is a process's."""
    inode = _inode(ours.getpeername()[1], ours.getsockname()[1])
    try:
        links = list((Path("/proc") / str(pid) / "fd").iterdir())
    except OSError:
        return False
    return inode is not None and any(_target(link) == f"socket:[{inode}]" for link in links)


def _inode(port: int, to_port: int) -> str | None:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(f":{port:04X}") and fields[2].endswith(f":{to_port:04X}"):
            return fields[9]
    return None


def _target(link: Path) -> str:
    try:
        return os.fspath(link.readlink())
    except OSError:
        return ""
