"""Event streams: complete, resumable, quick, ended by the run's end, and cheap to hold."""

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta

import attrs
import httpx
import pytest
import trio

from deepline.adapters.http.limited_client import parts_of
from deepline.core.model.identity import RunId
from deepline.gateway import GatewaySettings, ServerLimits
from deepline.ports.run_events import LiveEvent
from tests.gateway.deployment import ALICE, Deployment, Options, bearer, deployed, key_of

EVENTS = "/api/v1/runs/run_1/events"


@attrs.frozen
class Sent:
    """One server-sent event as it came over the wire."""

    name: str
    cursor: int | None
    data: str


class Parsed:
    """The events of an answer, comments under the name `:`, each as soon as it has come."""

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer

    async def until(self, enough: Callable[[Sent], Awaitable[bool]]) -> list[Sent]:
        """Read until `enough` says so or the stream ends."""
        seen: list[Sent] = []
        rest = b""
        async with parts_of(self._answer) as parts:
            async for part in parts:
                *blocks, rest = (rest + part).split(b"\n\n")
                for block in blocks:
                    seen.append(parsed(block.decode()))
                    if await enough(seen[-1]):
                        return seen
        return seen


def parsed(block: str) -> Sent:
    """One event from its lines."""
    if block.startswith(":"):
        return Sent(":", None, block[1:].strip())
    values = dict(line.split(": ", 1) for line in block.split("\n"))
    cursor = int(values["id"]) if "id" in values else None
    return Sent(values["event"], cursor, values["data"])


async def never(_: Sent) -> bool:
    """Read to the end."""
    return False


async def all_events(
    gateway: Deployment, query: str = "", headers: dict[str, str] | None = None
) -> list[Sent]:
    """Read a stream to its end, without comments."""
    with trio.fail_after(10):
        async with gateway.client.stream(
            "GET", EVENTS + query, headers={**bearer(ALICE), **(headers or {})}
        ) as answer:
            assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
            sent = await Parsed(answer).until(never)
    return [event for event in sent if event.name != ":"]


async def test_a_stream_tells_all_and_ends_with_the_run() -> None:
    """Every event comes once, in order, and `end` comes after the terminal fact."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        live = [LiveEvent(event_id=str(n), kind="log", payload={"n": n}) for n in range(120)]
        await gateway.store.run_events.append(key_of(fresh), live)
        await gateway.end(fresh)
        sent = await all_events(gateway)

    assert [event.name for event in sent] == [
        "run.created",
        *["log"] * 120,
        "run.completed",
        "end",
    ]
    assert [event.cursor for event in sent[:-1]] == list(range(1, 123))
    assert json.loads(sent[5].data)["payload"] == {"n": 4}


async def test_events_come_as_they_happen() -> None:
    """A hint brings an event at once; the poll of an hour would have come too late."""

    def rare(settings: GatewaySettings) -> GatewaySettings:
        return attrs.evolve(settings, observe_poll=timedelta(hours=1))

    async with deployed(Options(settings=rare)) as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)

        async def answer_it(event: Sent) -> bool:
            if event.name == "run.created":
                one = {"events": [{"eventId": "1", "kind": "log"}]}
                await gateway.client.post("/api/v1/runner/events", headers=headers, json=one)
            if event.name == "log":
                await gateway.end(fresh)
            return False

        with trio.fail_after(5):
            async with gateway.client.stream("GET", EVENTS, headers=bearer(ALICE)) as answer:
                sent = await Parsed(answer).until(answer_it)
    seen = [event.name for event in sent]

    assert seen == [":", "run.created", "log", "run.completed", "end"]


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        pytest.param("?after=2", {}, id="by-query"),
        pytest.param("", {"last-event-id": "2"}, id="by-header"),
        pytest.param("?after=1", {"last-event-id": "2"}, id="header-first"),
    ],
)
async def test_a_stream_resumes_where_it_broke(query: str, headers: dict[str, str]) -> None:
    """Nothing is repeated and nothing is left out."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        live = [LiveEvent(event_id=str(n), kind="log", payload={}) for n in range(3)]
        await gateway.store.run_events.append(key_of(fresh), live)
        await gateway.end(fresh)
        sent = await all_events(gateway, query, headers)

    assert [event.cursor for event in sent[:-1]] == [3, 4, 5]


async def test_a_stream_resumed_after_the_terminal_ends_at_once() -> None:
    """A client that lost only the last words does not wait for events that cannot come."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        await gateway.end(fresh)
        sent = await all_events(gateway, "?after=2")

    assert [event.name for event in sent] == ["end"]


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 30])
async def test_a_last_event_id_that_is_none_is_a_bad_request(last: str) -> None:
    """A stream never guesses where to begin."""
    async with deployed() as gateway:
        await gateway.submit(runId="run_1")
        answer = await gateway.client.get(EVENTS, headers={**bearer(ALICE), "last-event-id": last})

    assert answer.status_code == 400


async def test_a_quiet_stream_says_that_it_lives() -> None:
    """Comments keep proxies from closing a stream on which nothing happens."""

    def often(settings: GatewaySettings) -> GatewaySettings:
        return attrs.evolve(
            settings,
            keep_alive=timedelta(milliseconds=50),
            observe_poll=timedelta(milliseconds=20),
        )

    comments = 0

    async def third(event: Sent) -> bool:
        nonlocal comments
        comments += event.data == "alive"
        return comments == 3

    async with deployed(Options(settings=often)) as gateway:
        await gateway.submit(runId="run_1")
        with trio.fail_after(5):
            async with gateway.client.stream("GET", EVENTS, headers=bearer(ALICE)) as answer:
                await Parsed(answer).until(third)

    assert comments == 3


async def test_a_stream_waits_for_a_terminal_fact_still_to_be_delivered() -> None:
    """The run may have ended a moment before its ledger knows; the fact is not skipped (L05)."""
    async with deployed() as gateway:
        fresh = await gateway.start()
        await gateway.client.post("/api/v1/runs/run_1/cancel", headers=bearer(ALICE))
        names: list[str] = []

        async def read() -> None:
            names.extend(event.name for event in await all_events(gateway))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.sleep(0.2)
            assert names == []
            await gateway.deliver(RunId("run_1"))

    assert fresh.attempt.ref.attempt == 1
    assert names == ["run.created", "run.cancelled", "end"]


async def test_a_client_that_leaves_frees_its_place() -> None:
    """Hanging up ends the stream at once, without a word in the log."""

    def one(settings: GatewaySettings) -> GatewaySettings:
        return attrs.evolve(settings, watchers=1)

    async with deployed(Options(settings=one)) as gateway:
        await gateway.submit(runId="run_1")
        for _ in range(5):
            with trio.fail_after(5):
                while True:
                    async with gateway.client.stream(
                        "GET", EVENTS, headers=bearer(ALICE)
                    ) as answer:
                        if answer.status_code == 200:
                            break
                    await trio.sleep(0.01)
        failed = gateway.telemetry.named("request_failed")

    assert failed == []


async def test_a_client_that_reads_nothing_holds_one_page_and_is_cut_off() -> None:
    """The stream reads no further than its reader, and a stalled reader loses its place."""
    reads: list[int] = []

    class Counted:
        def __init__(self, inner: object) -> None:
            self._inner = inner

        async def read(self, run_id: RunId, *, after: int, limit: int) -> object:
            reads.append(after)
            return await self._inner.read(run_id, after=after, limit=limit)  # type: ignore[attr-defined]

    options = Options(
        ports=lambda ports: attrs.evolve(ports, run_events=Counted(ports.run_events)),  # type: ignore[arg-type]
        settings=lambda settings: attrs.evolve(settings, watchers=1),
        limits=ServerLimits(stall_s=0.5),
    )
    async with deployed(options) as gateway:
        fresh = await gateway.start()
        payload = {"text": "x" * 50_000}
        for start in range(0, 1_000, 250):
            await gateway.store.run_events.append(
                key_of(fresh),
                [
                    LiveEvent(event_id=str(n), kind="log", payload=payload)
                    for n in range(start, start + 250)
                ],
            )
        host, port = gateway.url.removeprefix("http://").split(":")
        stream = await trio.open_tcp_stream(host, int(port))
        async with stream:
            request = f"GET {EVENTS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ALICE}\r\n\r\n"
            await stream.send_all(request.encode())
            with trio.fail_after(10):
                while True:
                    answer = await gateway.client.get(
                        "/api/v1/runs/run_1?waitMs=1", headers=bearer(ALICE)
                    )
                    if reads and answer.status_code == 200:
                        break
                    await trio.sleep(0.05)

    assert max(reads) < 500
