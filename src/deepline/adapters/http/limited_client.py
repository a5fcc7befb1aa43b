"""The one HTTP client of this project: httpx behind a limiter of its own, with bounded answers.

httpx's pool loses places when requests are cancelled while others wait for it. A limiter of the
same size in front keeps that pool from ever being waited for. Time limits are the caller's
cancel scope around the whole call, body included; the timeouts set here only end a connection
that is stuck, since they give better reasons than a cancellation.
"""

import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import cache
from types import TracebackType
from typing import Self

import attrs
import httpx
import trio

from deepline.ports.errors import OutcomeUnknown, Unavailable

_MASKED_HEADERS = frozenset({"authorization", "x-deepline-internal-token"})


@cache
def _trusted() -> ssl.SSLContext:
    """The authorities to trust, read once: reading them takes longer than most requests."""
    return httpx.create_ssl_context(trust_env=False)


def _masked_headers(headers: Mapping[str, str]) -> str:
    shown = {name: "***" if name in _MASKED_HEADERS else headers[name] for name in headers}
    return repr(shown)


@attrs.frozen(kw_only=True)
class ClientLimits:
    """Sizes in bytes, times in seconds.

    `silence_s` is how long a peer may send nothing; it must exceed what a long poll may take.
    """

    connections: int = 20
    connect_s: float = 10.0
    silence_s: float = 60.0
    answer_bytes: int = 64 << 20


@attrs.frozen(kw_only=True)
class Call:
    """One request. `idempotent` says that sending it twice does no more than sending it once."""

    method: str
    url: str = attrs.field(repr=False)
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=_masked_headers)
    query: Mapping[str, str] = attrs.field(factory=dict[str, str])
    content: bytes | None = attrs.field(default=None, repr=False)
    idempotent: bool = False


@attrs.frozen(kw_only=True)
class Answer:
    """A whole answer. `body` is `None` when it could not be read to its end within its bound."""

    status: int
    headers: Mapping[str, str]
    body: bytes | None = attrs.field(repr=False)


class _Body(httpx.AsyncByteStream):
    """A request's body in one part, given out by a plain iterator.

    httpx's own is an async generator, which is collected unfinished when a request ends while its
    body is being sent, and of that Trio warns.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._left = [content]

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._left = [self._content]
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class LimitedClient:
    """An HTTP client of at most `connections` requests at once; open it with `async with`.

    Redirects are not followed and the environment's proxies are not used.
    """

    def __init__(self, limits: ClientLimits | None = None) -> None:
        self.limits = ClientLimits() if limits is None else limits
        self._places = trio.CapacityLimiter(self.limits.connections)
        self._stack = AsyncExitStack()
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        limits = self.limits
        client = httpx.AsyncClient(
            verify=_trusted(),
            trust_env=False,
            follow_redirects=False,
            limits=httpx.Limits(
                max_connections=limits.connections, max_keepalive_connections=limits.connections
            ),
            timeout=httpx.Timeout(limits.silence_s, connect=limits.connect_s, pool=None),
        )
        self._client = await self._stack.enter_async_context(client)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with trio.move_on_after(5, shield=True):
            await self._stack.aclose()

    async def request(self, call: Call, *, answer_bytes: int | None = None) -> Answer:
        """Send and read the whole answer.

        Raises `Unavailable` when nothing can have happened, or when the call is idempotent and no
        answer came, and `OutcomeUnknown` when it was sent and no answer came.
        """
        most = self.limits.answer_bytes if answer_bytes is None else answer_bytes
        async with self.stream(call) as reply:
            body = await read_bounded(reply, most)
            return Answer(status=reply.status_code, headers=reply.headers, body=body)

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[httpx.Response]:
        """Send and hand out the answer as soon as its headers are there.

        Raises as `request` does. Errors while the body is read are the reader's to translate
        with `translated`.
        """
        client = self._client
        if client is None:
            raise RuntimeError("open the client with `async with` before it is used")
        async with self._places, AsyncExitStack() as stack:
            with translated(idempotent=call.idempotent):
                request = client.build_request(
                    call.method,
                    call.url,
                    headers=dict(call.headers),
                    params=dict(call.query) or None,
                    content=call.content,
                )
                request.stream = _Body(call.content or b"")
                reply = await client.send(request, stream=True)
            stack.push_async_callback(_close, reply)
            yield reply


async def read_bounded(reply: httpx.Response, most: int) -> bytes | None:
    """Read a body of at most `most` bytes; `None` when it is longer or breaks off."""
    kept: list[bytes] = []
    size = 0
    try:
        async with parts_of(reply) as parts:
            async for part in parts:
                size += len(part)
                if size > most:
                    return None
                kept.append(part)
    except (httpx.StreamError, httpx.TransportError, httpx.DecodingError):
        return None
    return b"".join(kept)


@asynccontextmanager
async def parts_of(reply: httpx.Response) -> AsyncIterator[AsyncIterator[bytes]]:
    """The parts of a body, for the block; leaving early is fine.

    httpx reads a body through a chain of async generators, and Trio objects to those that are
    dropped half-way. Reading on from a closed answer ends each of them with an error.
    """
    parts = reply.aiter_bytes()
    try:
        yield parts
    finally:
        with trio.move_on_after(5, shield=True):
            await reply.aclose()
            with suppress(httpx.HTTPError, httpx.StreamError):
                async for _ in parts:
                    pass


@contextmanager
def translated(*, idempotent: bool) -> Iterator[None]:
    """Turn httpx's errors into those of ports, for the block; the one place that does (C59)."""
    try:
        yield
    except _NEVER_SENT as error:
        raise Unavailable(f"could not connect ({_reason(error)})") from error
    except (httpx.HTTPError, httpx.StreamError) as error:
        if idempotent:
            raise Unavailable(f"no answer came ({_reason(error)})") from error
        raise OutcomeUnknown(f"no answer came ({_reason(error)})") from error


_NEVER_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.UnsupportedProtocol,
    httpx.ProxyError,
    httpx.InvalidURL,
    httpx.LocalProtocolError,
)


def _reason(error: BaseException) -> str:
    # The type alone: messages of the transport may repeat addresses.
    return type(error).__name__


async def _close(reply: httpx.Response) -> None:
    with trio.move_on_after(5, shield=True):
        await reply.aclose()
