"""Following a run's server-sent events, across lost connections, without an async generator.

A task reads the stream and hands events over a channel without a buffer, so nothing is read
ahead of the consumer. What ends the reading is kept and told to the consumer in its own task.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import attrs
import httpx
import trio

from deepline.adapters.http.api_errors import failure_of
from deepline.adapters.http.limited_client import (
    Call,
    LimitedClient,
    parts_of,
    read_bounded,
    translated,
)
from deepline.core.model.json_value import JsonObject
from deepline.core.model.ledger import TERMINAL_KINDS
from deepline.ports.errors import (
    CapacityExceeded,
    MalformedDocument,
    OutcomeUnknown,
    PortError,
    Unavailable,
)
from deepline.ports.wire import fields, parse_json

RETRIES = 10
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 5.0
_EVENT_BYTES = 16 << 20
_PROBLEM_BYTES = 64 << 10


@attrs.frozen(kw_only=True)
class FeedEvent:
    """One event of a run; `cursor` resumes a feed after it. `occurred_at_ms` is since the epoch."""

    cursor: int
    event_id: str
    kind: str
    payload: JsonObject
    occurred_at_ms: int


class EventFeed:
    """The events of one run, in order; iterate it once."""

    def __init__(self, events: trio.MemoryReceiveChannel[FeedEvent]) -> None:
        self._events = events
        self.failure: PortError | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FeedEvent:
        """The next event. Raises the `PortError` that ended the reading, if one did."""
        try:
            return await self._events.receive()
        except trio.EndOfChannel:
            if self.failure is not None:
                raise self.failure from None
            raise StopAsyncIteration from None


@asynccontextmanager
async def open_feed(
    client: LimitedClient, call: Call, *, after: int, retries: int = RETRIES
) -> AsyncIterator[EventFeed]:
    """Read the stream of `call` for the block, beginning after cursor `after`.

    A broken connection is taken up again `retries` times in a row. What the block raises leaves it
    as it is: the nursery in here is nobody's business, and its group would hide the error's name.
    """
    send, receive = trio.open_memory_channel[FeedEvent](0)
    feed = EventFeed(receive)
    raised: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_Reader(client, call, after, retries, send).run, feed)
            try:
                # Closed without a checkpoint, at which the cancelling below would hide the error.
                with receive:
                    yield feed
            except Exception as error:
                raised = error
                nursery.cancel_scope.cancel(reason="whoever follows it has failed")
                raise
            nursery.cancel_scope.cancel(reason="the feed is closed")
    except BaseExceptionGroup as group:
        if raised is not None and len(group.exceptions) == 1:
            raise raised from raised.__cause__
        raise


class _Reader:
    def __init__(
        self,
        client: LimitedClient,
        call: Call,
        after: int,
        retries: int,
        send: trio.MemorySendChannel[FeedEvent],
    ) -> None:
        self._client = client
        self._call = call
        self._cursor = after
        self._retries = retries
        self._send = send
        self._failures = 0

    async def run(self, feed: EventFeed) -> None:
        """Read until the end or a failure, which is left on the feed."""
        async with self._send:
            try:
                while not await self._read_once():
                    await self._pause()
            except PortError as error:
                feed.failure = error
            except trio.BrokenResourceError:
                return

    async def _read_once(self) -> bool:
        """Read one connection's worth; True when the run's last event has been handed over."""
        headers = {**self._call.headers, "accept": "text/event-stream"}
        if self._cursor > 0:
            headers["last-event-id"] = str(self._cursor)
        call = attrs.evolve(self._call, headers=headers)
        try:
            async with self._client.stream(call) as reply:
                if reply.status_code != 200:
                    await _fail(reply, self._call.url)
                return await self._read_events(reply)
        except (Unavailable, OutcomeUnknown, CapacityExceeded) as error:
            self._failures += 1
            if self._failures > self._retries:
                raise
            if isinstance(error, CapacityExceeded):
                await trio.sleep(error.retry_after.total_seconds())
            return False

    async def _read_events(self, reply: httpx.Response) -> bool:
        parser = EventParser()
        with translated(idempotent=True):
            async with parts_of(reply) as parts:
                async for part in parts:
                    for name, text in parser.feed(part):
                        if name == "end" or await self._hand_over(_event(text)):
                            return True
        return False

    async def _hand_over(self, event: FeedEvent) -> bool:
        """Give the consumer an event it has not had; True when it was the run's last."""
        self._failures = 0
        if event.cursor > self._cursor:
            await self._send.send(event)
            self._cursor = event.cursor
        return event.kind in TERMINAL_KINDS

    async def _pause(self) -> None:
        await trio.sleep(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**self._failures))


class EventParser:
    """Splits a stream of bytes into server-sent events, holding at most one event's worth."""

    def __init__(self, longest: int = _EVENT_BYTES) -> None:
        self._buffer = bytearray()
        self._name = "message"
        self._lines: list[str] = []
        self._longest = longest
        self._held = 0

    def feed(self, part: bytes) -> list[tuple[str, str]]:
        """Take more bytes; returns the events they complete, as name and text.

        Raises `MalformedDocument` for an event longer than the bound.
        """
        self._buffer += part
        found: list[tuple[str, str]] = []
        lines: list[bytes] = []
        if b"\n" in part:
            *lines, rest = bytes(self._buffer).split(b"\n")
            self._buffer = bytearray(rest)
        for line in lines:
            event = self._take(line.removesuffix(b"\r"))
            if event is not None:
                found.append(event)
        if len(self._buffer) + self._held > self._longest:
            raise MalformedDocument("", f"holds an event of more than {self._longest} bytes")
        return found

    def _take(self, line: bytes) -> tuple[str, str] | None:
        if not line:
            event = (self._name, "\n".join(self._lines)) if self._lines else None
            self._name, self._lines, self._held = "message", [], 0
            return event
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._name = value
        elif name == "data":
            self._lines.append(value)
            self._held += len(line)
        return None


def _event(text: str) -> FeedEvent:
    document = fields.as_object(parse_json(text.encode(), _EVENT_BYTES), "")
    payload = fields.optional_object(document, "payload", "")
    cursor = document.get("cursor")
    occurred = document.get("occurredAtMs")
    if not isinstance(cursor, int) or not isinstance(occurred, int):
        raise MalformedDocument("cursor", "and occurredAtMs must be whole numbers")
    return FeedEvent(
        cursor=cursor,
        event_id=fields.text(document, "eventId", ""),
        kind=fields.text(document, "kind", ""),
        payload={} if payload is None else payload,
        occurred_at_ms=occurred,
    )


async def _fail(reply: httpx.Response, url: str) -> None:
    body = await read_bounded(reply, _PROBLEM_BYTES)
    try:
        value = None if body is None else parse_json(body, _PROBLEM_BYTES)
    except MalformedDocument:
        value = None
    raise failure_of(reply.status_code, value, url)
