"""Request bodies: read as they come, never held beyond their bound (DESIGN: limits on every body).

Three bounds stand around a body: its own length, the time its client may take to send it, and
the sum of all bodies this process holds at once.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import trio
from starlette.requests import Request

from deepline.core.capacity_deferral import CAPACITY_CODE
from deepline.core.model.json_value import JsonObject
from deepline.gateway.problems import Problem
from deepline.ports.wire import fields, parse_json

_PARSE_INLINE = 256 << 10
_PARSERS = 2
_LONGEST_LENGTH = 18
"""Digits of a declared length beyond which it is absurd whatever it says."""
_RETRY = timedelta(seconds=1)


class ClientGone(Exception):
    """The client hung up before its request was complete; there is nobody to answer."""


class Bodies:
    """Reads the bodies of one process's requests within its bounds."""

    def __init__(self, *, in_flight: int, body_read: timedelta) -> None:
        self._in_flight = in_flight
        self._held = 0
        self._body_read = body_read
        self._parsers = trio.CapacityLimiter(_PARSERS)

    @property
    def held(self) -> int:
        """Bytes of bodies held at this moment."""
        return self._held

    @asynccontextmanager
    async def read(self, request: Request, longest: int) -> AsyncIterator[bytes]:
        """Read the whole body; its bytes count as held until the block ends.

        Raises a `Problem` (408, 413, 503) or `ClientGone`; the rest is then left unread.
        """
        _check_declared(request, longest)
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            if taken + count > longest:
                raise _too_long(longest)
            if self._held + count > self._in_flight:
                raise _no_room()
            self._held += count
            taken += count

        try:
            body = await self._collect(request, take)
            yield body
        finally:
            self._held -= taken

    @asynccontextmanager
    async def read_document(self, request: Request, longest: int) -> AsyncIterator[JsonObject]:
        """Read a body that is one JSON object, and nothing that the store could not hold.

        An empty body is an empty object. Long bodies are parsed in a thread, so that they do not
        hold up other requests. Raises `MalformedDocument` beside what `read` raises.
        """
        async with self.read(request, longest) as body:
            parse = partial(parse_json, body or b"{}", longest)
            if len(body) <= _PARSE_INLINE:
                value = parse()
            else:
                value = await trio.to_thread.run_sync(parse, limiter=self._parsers)
            yield fields.as_object(value, "")

    async def _collect(self, request: Request, take: Callable[[int], None]) -> bytes:
        chunks: list[bytes] = []
        with trio.move_on_after(self._body_read.total_seconds()):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                chunk: bytes = message.get("body", b"")
                take(len(chunk))
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return b"".join(chunks)
        raise Problem(408, "body_too_slow", "The body did not arrive in time; send it again.")


def _check_declared(request: Request, longest: int) -> None:
    declared = request.headers.get("content-length", "")
    if not (declared.isascii() and declared.isdigit()):
        return
    if len(declared) > _LONGEST_LENGTH or int(declared) > longest:
        raise _too_long(longest)


def _too_long(longest: int) -> Problem:
    return Problem(
        413, "body_too_large", f"At most {longest} bytes are accepted here; send less at a time."
    )


def _no_room() -> Problem:
    return Problem(
        503,
        CAPACITY_CODE,
        "The gateway holds as many bodies as it may; ask again shortly.",
        retry_after=_RETRY,
    )
