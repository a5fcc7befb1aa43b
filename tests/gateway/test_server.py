"""The server: gentle stops, bounded connections, and peers that do not behave."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

import attrs
import httpx
import pytest
import trio

from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from deepline.gateway import (
    BodyLimits,
    GatewayPorts,
    PortUnavailable,
    ServerLimits,
    open_gateway_listeners,
)
from deepline.ports.sheets import RowOutcome
from tests.gateway.deployment import (
    ALICE,
    Deployment,
    Options,
    bearer,
    deployed,
    eventually,
    key_of,
)

HEARTBEAT = "/api/v1/runner/heartbeat"


async def connect(gateway: Deployment) -> trio.SocketStream:
    """A connection of our own to the gateway."""
    host, port = gateway.url.removeprefix("http://").split(":")
    return await trio.open_tcp_stream(host, int(port))


async def read_all(stream: trio.SocketStream) -> bytes:
    """What comes until the server hangs up."""
    received = b""
    with trio.fail_after(10):
        try:
            while part := await stream.receive_some():
                received += part
        except trio.BrokenResourceError:
            pass
    return received


async def test_a_port_in_use_is_refused_in_words() -> None:
    """The message names the address and says what to do."""
    bound = await open_gateway_listeners("127.0.0.1", 0)
    port = int(bound.url.rpartition(":")[2])
    try:
        with pytest.raises(PortUnavailable) as refusal:
            await open_gateway_listeners("127.0.0.1", port)
    finally:
        await bound.aclose()

    assert f"127.0.0.1:{port} is in use" in str(refusal.value)
    assert "choose another port" in str(refusal.value)


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        pytest.param("localhost", "http://", id="name-of-several-addresses"),
        pytest.param("0.0.0.0", "http://127.0.0.1:", id="all-addresses"),
    ],
)
async def test_the_port_that_was_bound_is_told(host: str, shown: str) -> None:
    """Port 0 takes one free port, and the URL leads to it from this machine."""
    bound = await open_gateway_listeners(host, 0)
    try:
        ports = {listener.socket.getsockname()[1] for listener in bound.listeners}
    finally:
        await bound.aclose()

    assert bound.url.startswith(shown)
    assert ports == {int(bound.url.rpartition(":")[2])}


async def test_an_address_of_another_machine_is_refused_in_words() -> None:
    """Documentation addresses belong to nobody, so nobody can listen on them."""
    with pytest.raises(PortUnavailable) as refusal:
        await open_gateway_listeners("192.0.2.1", 0)

    assert "not an address of this machine" in str(refusal.value)


@attrs.define
class Gate:
    """Holds operations of a store back until they are let through."""

    inner: object
    entered: trio.Event = attrs.field(factory=trio.Event)
    opened: trio.Event = attrs.field(factory=trio.Event)

    async def beat(self, key: object) -> object:
        self.entered.set()
        await self.opened.wait()
        return await self.inner.beat(key)  # type: ignore[attr-defined]


@attrs.define
class Held:
    """A deployment's options with its heartbeats held back."""

    gate: Gate = attrs.field(init=False)
    changes: Callable[[GatewayPorts], GatewayPorts] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        def change(ports: GatewayPorts) -> GatewayPorts:
            self.gate = Gate(ports.liveness)
            return attrs.evolve(ports, liveness=self.gate)  # type: ignore[arg-type]

        self.changes = change


async def beat(gateway: Deployment, headers: dict[str, str], statuses: list[int]) -> None:
    """Beat once and note the answer's status, 0 when none came."""
    try:
        answer = await gateway.client.post(HEARTBEAT, headers=headers)
    except httpx.TransportError:
        statuses.append(0)
    else:
        statuses.append(answer.status_code)


async def test_a_request_in_hand_is_answered_while_the_server_drains() -> None:
    """A stop takes no new connections and lets what was begun come to its end (C04.4)."""
    held = Held()
    options = Options(ports=held.changes)
    statuses: list[int] = []
    async with deployed(options) as gateway:
        headers = await gateway.runner(await gateway.start())
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(beat, gateway, headers, statuses)
                await held.gate.entered.wait()
                options.shutdown.set()
                await trio.sleep(0.05)
                with pytest.raises(OSError, match="connect"):
                    await connect(gateway)
                held.gate.opened.set()

    assert statuses == [200]


async def test_a_write_in_hand_is_not_torn_when_the_drain_is_over() -> None:
    """Cancelled requests lose their answer, not their write."""
    held = Held()
    options = Options(ports=held.changes, limits=ServerLimits(drain_s=0.1))
    statuses: list[int] = []
    async with deployed(options) as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(beat, gateway, headers, statuses)
                await held.gate.entered.wait()
                options.shutdown.set()
                await trio.sleep(0.3)
                held.gate.opened.set()
        liveness = await gateway.store.liveness.read(key_of(fresh))

    assert liveness is not None
    assert liveness.beat_at is not None


async def test_a_write_goes_on_when_its_client_hangs_up() -> None:
    """A client that leaves in the middle of a write does not decide its fate."""
    held = Held()
    async with deployed(Options(ports=held.changes)) as gateway:
        fresh = await gateway.start()
        headers = await gateway.runner(fresh)
        with trio.move_on_after(5) as leaving:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(gateway.client.post, HEARTBEAT, headers=headers))
                await held.gate.entered.wait()
                leaving.cancel()
        await trio.sleep(0.05)
        held.gate.opened.set()

        async def has_beaten() -> bool:
            liveness = await gateway.store.liveness.read(key_of(fresh))
            return liveness is not None and liveness.beat_at is not None

        with trio.fail_after(5):
            await eventually(has_beaten)


async def test_a_write_that_takes_too_long_has_an_unknown_outcome() -> None:
    """The caller is told that it cannot know, and may repeat the call."""
    held = Held()
    options = Options(
        ports=held.changes,
        settings=lambda settings: attrs.evolve(settings, store_write=timedelta(seconds=0.05)),
    )
    async with deployed(options) as gateway:
        headers = await gateway.runner(await gateway.start())
        answer = await gateway.client.post(HEARTBEAT, headers=headers)

    assert answer.status_code == 503
    assert answer.json()["code"] == "outcome_unknown"


async def test_watchers_are_let_go_when_the_server_drains() -> None:
    """Streams and long polls do not hold a stop up; their clients go to another gateway."""
    options = Options(limits=ServerLimits(drain_s=60))
    async with deployed(options) as gateway:
        await gateway.submit(runId="run_1")
        seen: list[object] = []

        async def stream() -> None:
            answer = await gateway.client.get("/api/v1/runs/run_1/events", headers=bearer(ALICE))
            seen.append("event: end" in answer.text)

        async def poll() -> None:
            url = "/api/v1/runs/run_1?waitMs=30000"
            answer = await gateway.client.get(url, headers=bearer(ALICE))
            seen.append(answer.json()["status"])

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stream)
                nursery.start_soon(poll)
                await trio.sleep(0.2)
                options.shutdown.set()

    assert sorted(map(str, seen)) == ["False", "queued"]


async def test_an_idle_connection_does_not_hold_a_stop_up() -> None:
    """Connections kept alive without a request are closed at once."""
    options = Options(limits=ServerLimits(drain_s=60))
    async with deployed(options) as gateway:
        await gateway.client.get("/healthz")
        silent = await connect(gateway)
        async with silent:
            options.shutdown.set()
            with trio.fail_after(5):
                await gateway.stopped.wait()
            assert await read_all(silent) == b""


async def test_a_peer_that_takes_nothing_does_not_hold_a_stop_up() -> None:
    """A reader that stalls is cut off, so a stop is bounded whatever readers do (L10)."""
    options = Options(limits=ServerLimits(drain_s=0.2, stall_s=0.3))
    with trio.fail_after(8):
        async with deployed(options) as gateway:
            fresh = await gateway.start()
            key = key_of(fresh)
            await gateway.store.sheets.open_sheet(key, "big", total=400)
            await gateway.store.sheets.finish_rows(
                key,
                "big",
                [
                    RowOutcome(row_index=n, input_row=None, output="x" * 100_000, error=None)
                    for n in range(400)
                ],
            )
            stalled = await connect(gateway)
            async with stalled:
                head = "GET /api/v1/runs/run_1/sheets/big.csv HTTP/1.1\r\nhost: x\r\n"
                await stalled.send_all(f"{head}authorization: Bearer {ALICE}\r\n\r\n".encode())
                await stalled.receive_some()
                options.shutdown.set()
                await gateway.stopped.wait()


async def test_connections_are_bounded() -> None:
    """One connection more waits its turn, and gets it when another ends."""
    async with deployed(Options(limits=ServerLimits(connections=1))) as gateway:
        first = await connect(gateway)
        with trio.move_on_after(0.3) as waited:
            await gateway.client.get("/healthz")
        await first.aclose()
        with trio.fail_after(5):
            answer = await gateway.client.get("/healthz")

    assert waited.cancelled_caught
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "path", [pytest.param(HEARTBEAT, id="too-long"), pytest.param("/nowhere", id="never-read")]
)
async def test_a_body_that_is_left_unread_does_not_hold_its_connection(path: str) -> None:
    """A client that sends on and on after its answer is cut off, and its place is free again."""
    async with deployed(Options(limits=ServerLimits(connections=1))) as gateway:
        stream = await connect(gateway)
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 900000000\r\n\r\n"
        received: list[bytes] = []

        async def send() -> None:
            try:
                await stream.send_all(head.encode())
                while True:
                    await stream.send_all(b"x" * 65_536)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                received.append(await read_all(stream))
            await stream.aclose()
            answer = await gateway.client.get("/healthz")

    assert answer.status_code == 200
    assert received[0].startswith(b"HTTP/1.1 4")


async def test_a_body_that_drips_is_given_up() -> None:
    """A client has a bounded time to send its body."""
    options = Options(
        settings=lambda settings: attrs.evolve(settings, body_read=timedelta(seconds=0.2))
    )
    async with deployed(options) as gateway:
        headers = await gateway.runner(await gateway.start())
        stream = await connect(gateway)
        async with stream:
            authorization = headers["authorization"]
            head = (
                f"POST {HEARTBEAT} HTTP/1.1\r\nhost: x\r\nauthorization: {authorization}\r\n"
                "content-length: 500\r\n\r\n"
            )
            await stream.send_all(head.encode())
            answer = await read_all(stream)

    assert b"408" in answer.split(b"\r\n", 1)[0]
    assert b"body_too_slow" in answer


async def test_all_bodies_together_are_bounded() -> None:
    """When the process holds as many bytes as it may, the next body is told to come again."""
    options = Options(
        settings=lambda settings: attrs.evolve(settings, bodies=BodyLimits(in_flight=100_000))
    )
    async with deployed(options) as gateway:
        refused = await gateway.submit(input={"text": "x" * 100_001})
        small = await gateway.submit(input={"text": "x" * 50_000})
        again = await gateway.submit(input={"text": "x" * 50_000})

    assert refused.status_code == 503
    assert refused.json()["code"] == "RUNTIME_SCHEDULER_CAPACITY"
    assert (small.status_code, again.status_code) == (201, 201)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", b"400", id="tls"),
        pytest.param(b"GET /healthz\r\n\r\n", b"400", id="no-version"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 200_000, b"4", id="huge-header"),
    ],
)
async def test_garbage_is_answered_and_the_connection_closed(sent: bytes, status: bytes) -> None:
    """Bytes that are no HTTP end their own connection and nothing else."""
    async with deployed() as gateway:
        stream = await connect(gateway)
        async with stream:
            with trio.move_on_after(5):
                with suppress(trio.BrokenResourceError):
                    await stream.send_all(sent)
            answer = await read_all(stream)
        healthy = await gateway.client.get("/healthz")

    assert answer == b"" or answer.split(b" ")[1].startswith(status)
    assert healthy.status_code == 200


async def test_a_websocket_is_turned_away() -> None:
    """Nothing here speaks WebSocket; the upgrade is refused and the server goes on."""
    async with deployed() as gateway:
        answer = await gateway.client.get(
            "/healthz",
            headers={
                "connection": "upgrade",
                "upgrade": "websocket",
                "sec-websocket-version": "13",
                "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
            },
        )
        healthy = await gateway.client.get("/healthz")

    assert answer.status_code == 403
    assert healthy.status_code == 200


async def facts_of(gateway: Deployment, documents: list[Json]) -> httpx.Response:
    """Deliver facts as a worker."""
    return await gateway.client.post(
        "/api/internal/ledger/events",
        json={"runId": "run_1", "orgId": "alice", "facts": documents},
        headers={"x-deepline-internal-token": "internal-token-of-tests"},
    )


async def test_facts_are_applied_once_and_in_order() -> None:
    """A delivery whose answer was lost is sent again and changes nothing (I21)."""
    facts: list[Json] = [
        {
            "seq": n,
            "eventId": f"e{n}",
            "kind": "run.progress_settled",
            "payload": {"n": n},
            "occurredAtMs": 1_000 + n,
        }
        for n in (2, 3)
    ]
    async with deployed() as gateway:
        await gateway.submit(runId="run_1")
        first = await facts_of(gateway, facts)
        again = await facts_of(gateway, facts)
        stored = await gateway.store.run_events.read(RunId("run_1"), after=0, limit=10)

    assert first.json() == again.json() == {"applied": 2}
    assert [event.event_id for event in stored] == ["run-created:run_1", "e2", "e3"]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param([{}], "facts[0].seq", id="empty-fact"),
        pytest.param([{"seq": 1, "eventId": "e", "kind": "k"}], "occurredAtMs", id="no-instant"),
        pytest.param([{}] * 501, "at most 500", id="too-many"),
    ],
)
async def test_facts_of_the_wrong_shape_are_refused_whole(facts: list[Json], words: str) -> None:
    """A worker learns which fact is wrong; its outbox keeps them all."""
    async with deployed() as gateway:
        answer = await facts_of(gateway, facts)

    assert answer.status_code == 422
    assert words in answer.json()["detail"]


async def test_facts_are_for_workers_alone() -> None:
    """An API key does not open the ledger's intake."""
    async with deployed() as gateway:
        answer = await gateway.client.post(
            "/api/internal/ledger/events", json={}, headers=bearer(ALICE)
        )

    assert answer.status_code == 401
