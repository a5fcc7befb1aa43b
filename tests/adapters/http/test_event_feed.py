"""Following events: across lost connections, one at a time, with an end that is told apart."""

import json

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from deepline.adapters.http.api_client import ApiAddress, ApiClient
from deepline.adapters.http.api_errors import Unauthenticated
from deepline.adapters.http.event_feed import EventParser
from deepline.core.model.identity import RunId
from deepline.ports.errors import MalformedDocument, NotFound, Unavailable
from tests.adapters.http.scripted import Asked, Wire, scripted

RUN = RunId("run_1")


def sent(cursor: int, kind: str = "log") -> bytes:
    """One event as a gateway sends it."""
    data = {
        "cursor": cursor,
        "eventId": f"e{cursor}",
        "kind": kind,
        "payload": {"n": cursor},
        "occurredAtMs": 1_000,
    }
    return f"id: {cursor}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()


async def test_a_feed_goes_on_where_a_lost_connection_broke() -> None:
    """Each event comes once, though the first connection broke and the second repeats one."""

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.head(200, content_type="text/event-stream")
        last = asked.headers.get("last-event-id")
        if last is None:
            await wire.part(b": open\n\n" + sent(1) + sent(2)[:-9])
            await wire.cut()
        else:
            await wire.part(sent(1) + sent(2) + sent(3, "run.completed"))
            await trio.sleep_forever()

    async with scripted(script) as server, ApiClient(ApiAddress(server.url, "key")) as client:
        with trio.fail_after(5):
            async with client.events(RUN) as feed:
                events = [event async for event in feed]

    assert [event.cursor for event in events] == [1, 2, 3]
    assert [asked.headers.get("last-event-id") for asked in server.asked] == [None, "1"]
    assert events[2].kind == "run.completed"
    assert events[0].payload == {"n": 1}


async def test_a_feed_can_begin_after_an_event_and_be_left_at_any_time() -> None:
    """Leaving the block ends the reading; nothing is left running."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.head(200)
        for cursor in range(8, 1_000):
            await wire.part(sent(cursor))
        await trio.sleep_forever()

    async with scripted(script) as server, ApiClient(ApiAddress(server.url, "key")) as client:
        with trio.fail_after(5):
            async with client.events(RUN, after=7) as feed:
                first = await anext(feed)

    assert first.cursor == 8
    assert server.asked[0].headers["last-event-id"] == "7"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        pytest.param(404, {"code": "run_not_found", "detail": "no"}, NotFound, id="no-such-run"),
        pytest.param(
            401, {"code": "unauthenticated", "detail": "no"}, Unauthenticated, id="no-key"
        ),
    ],
)
async def test_a_refusal_ends_the_feed_with_its_error(
    status: int, body: object, kind: type[Exception]
) -> None:
    """The consumer gets the plain error in its own task, without a group around it."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.reply(status, body)

    async with (
        scripted(script) as server,
        ApiClient(ApiAddress(server.url, "key")) as client,
        client.events(RUN) as feed,
    ):
        with pytest.raises(kind):
            await anext(feed)

    assert len(server.asked) == 1


async def follow(client: ApiClient, seen: list[int]) -> None:
    """Follow a run as a caller would that catches errors around it all."""
    async with client.events(RUN) as feed:
        async for event in feed:
            seen.append(event.cursor)  # noqa: PERF401 - what was seen before the error


@pytest.mark.parametrize("events", [0, 1], ids=["at-once", "after-an-event"])
async def test_what_the_block_raises_leaves_it_plain(events: int) -> None:
    """A caller that catches the named error around the block gets it, not a group of one."""

    async def script(asked: Asked, wire: Wire) -> None:
        if events == 0 or "last-event-id" in asked.headers:
            await wire.reply(404, {"code": "run_not_found", "detail": "no"})
            return
        await wire.head(200, content_type="text/event-stream")
        await wire.part(sent(1))
        await wire.cut()

    seen: list[int] = []
    async with scripted(script) as server, ApiClient(ApiAddress(server.url, "key")) as client:
        with trio.fail_after(5), pytest.raises(NotFound):
            await follow(client, seen)

    assert len(seen) == events


async def test_an_error_of_the_consumer_s_own_leaves_the_feed_as_it_is() -> None:
    """Also while an event is on the way, with its cause, and be it a group of the caller's own."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.head(200)
        await wire.part(sent(1) + sent(2))
        await trio.sleep_forever()

    own = ExceptionGroup("the caller's", [KeyError("mine")])
    cause = ValueError("why")

    async def fail(client: ApiClient) -> None:
        async with client.events(RUN) as feed:
            await anext(feed)
            raise own from cause

    raised: Exception | None = None
    async with scripted(script) as server, ApiClient(ApiAddress(server.url, "key")) as client:
        with trio.fail_after(5):
            try:
                await fail(client)
            except Exception as error:  # noqa: BLE001 - which one it is, is the question
                raised = error

    assert raised is own
    assert raised.__cause__ is cause


async def test_a_cancelled_feed_is_cancelled() -> None:
    """A time limit of the caller's ends the block as a time limit, not as an error."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.head(200)
        await trio.sleep_forever()

    async with scripted(script) as server, ApiClient(ApiAddress(server.url, "key")) as client:
        with trio.move_on_after(0.1) as scope:
            async with client.events(RUN) as feed:
                await anext(feed)

    assert scope.cancelled_caught


async def test_a_gateway_that_stays_away_ends_the_feed_after_some_tries(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Trying again is bounded; then the consumer learns that it is of no use."""
    async with (
        ApiClient(ApiAddress("http://127.0.0.1:1", "key")) as client,
        client.events(RUN) as feed,
    ):
        with pytest.raises(Unavailable):
            await anext(feed)


async def test_an_event_of_the_wrong_shape_ends_the_feed() -> None:
    """What is no event is not skipped in silence."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.head(200)
        await wire.part(b"event: log\ndata: {}\n\n")
        await trio.sleep_forever()

    async with (
        scripted(script) as server,
        ApiClient(ApiAddress(server.url, "key")) as client,
        client.events(RUN) as feed,
    ):
        with pytest.raises(MalformedDocument):
            await anext(feed)


@given(st.lists(st.integers(1, 40), max_size=30))
def test_events_do_not_depend_on_how_their_bytes_arrive(cuts: list[int]) -> None:
    """However a stream is cut into parts, the same events come out."""
    stream = b": hello\r\n\r\n" + sent(1) + b"data: two\ndata: lines\n\n" + sent(2) + b"data: half"
    parser = EventParser()
    found: list[tuple[str, str]] = []
    at = 0
    for cut in [*cuts, len(stream)]:
        found += parser.feed(stream[at : at + cut])
        at += cut

    whole = EventParser().feed(stream)
    assert found == whole
    assert [name for name, _ in whole] == ["log", "message", "log"]
    assert whole[1][1] == "two\nlines"


@pytest.mark.parametrize(
    "part", [pytest.param(b"data: xxxxxxxx", id="line"), pytest.param(b"data: xx\n", id="lines")]
)
def test_an_event_without_end_is_refused(part: bytes) -> None:
    """What is held for one event is bounded."""
    parser = EventParser(longest=100)

    def feed_on() -> None:
        for _ in range(100):
            parser.feed(part)

    with pytest.raises(MalformedDocument):
        feed_on()
