"""The one HTTP client: what failed and what that means, and no place lost on the way."""

import gc
from functools import partial

import pytest
import trio

from deepline.adapters.http.limited_client import Call, ClientLimits, LimitedClient
from deepline.ports.errors import OutcomeUnknown, Unavailable
from tests.adapters.http.scripted import Asked, Script, Wire, scripted


async def hang(_: Asked, __: Wire) -> None:
    """Never answer."""
    await trio.sleep_forever()


async def cut(_: Asked, wire: Wire) -> None:
    """Hang up."""
    await wire.cut()


async def garbage(_: Asked, wire: Wire) -> None:
    """Speak another tongue."""
    await wire.raw(b"SSH-2.0-whatever\r\n")
    await wire.cut()


async def fine(_: Asked, wire: Wire) -> None:
    """Answer well."""
    await wire.reply(200, {"ok": True})


@pytest.mark.parametrize(
    "idempotent", [pytest.param(True, id="idempotent"), pytest.param(False, id="once")]
)
@pytest.mark.parametrize(
    "script", [pytest.param(cut, id="cut"), pytest.param(garbage, id="garbage")]
)
async def test_sent_and_not_answered(script: Script, idempotent: bool) -> None:
    """Only for a call that may be repeated is a missing answer the same as a missing effect."""
    async with scripted(script) as server, LimitedClient() as client:
        call = Call(method="POST", url=server.url, content=b"x", idempotent=idempotent)
        with pytest.raises(Unavailable if idempotent else OutcomeUnknown):
            await client.request(call)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://name.invalid", "mailto:x", "http://["]
)
async def test_never_sent(url: str) -> None:
    """What never left cannot have had an effect."""
    async with LimitedClient() as client:
        with trio.fail_after(20), pytest.raises(Unavailable) as failure:
            await client.request(Call(method="POST", url=url, content=b"x"))

    assert url not in str(failure.value)


async def test_a_silent_server_is_given_up_by_the_clients_own_patience() -> None:
    """Without a caller's limit a dead connection still ends."""
    async with scripted(hang) as server, LimitedClient(ClientLimits(silence_s=0.2)) as client:
        with trio.fail_after(5), pytest.raises(OutcomeUnknown):
            await client.request(Call(method="POST", url=server.url, content=b"x"))


async def test_redirects_are_answers() -> None:
    """A secret is never carried on to where a server points."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.reply(302, "", location="/elsewhere")

    async with scripted(script) as server, LimitedClient() as client:
        answer = await client.request(Call(method="GET", url=server.url))

    assert answer.status == 302
    assert len(server.asked) == 1


async def test_a_longer_body_than_asked_for_is_no_body() -> None:
    """The bound holds whatever the server sends; the connection is dropped."""

    async def script(_: Asked, wire: Wire) -> None:
        await wire.head(200)
        while True:
            await wire.part(b"x" * 10_000)

    async with scripted(script) as server, LimitedClient() as client:
        with trio.fail_after(5):
            answer = await client.request(Call(method="GET", url=server.url), answer_bytes=50_000)

    assert (answer.status, answer.body) == (200, None)


async def test_cancelled_requests_lose_no_place() -> None:
    """After many requests cancelled in every state, all places still serve."""
    calls = 0

    async def script(asked: Asked, wire: Wire) -> None:
        nonlocal calls
        calls += 1
        await trio.sleep(0.002 * (calls % 4))
        await wire.head(200, content_length="10")
        await wire.part(b"12345")
        await trio.sleep(0.002 * (calls % 3))
        await wire.part(b"67890")
        await wire.end()

    async with scripted(script) as server, LimitedClient(ClientLimits(connections=3)) as client:

        async def impatient(patience_s: float) -> None:
            with trio.move_on_after(patience_s):
                await client.request(Call(method="GET", url=server.url, idempotent=True))

        with trio.fail_after(20):
            for round_number in range(25):
                async with trio.open_nursery() as nursery:
                    for number in range(12):
                        nursery.start_soon(impatient, 0.0015 * ((number + round_number) % 9))
            for _ in range(2):
                async with trio.open_nursery() as nursery:
                    for _ in range(6):
                        nursery.start_soon(impatient, 10)
            answer = await client.request(Call(method="GET", url=server.url, idempotent=True))

    assert answer.body == b"1234567890"


async def test_requests_beyond_the_limit_wait_their_turn() -> None:
    """No more requests are on the wire than there are places."""
    on_the_wire = most = 0

    async def script(_: Asked, wire: Wire) -> None:
        nonlocal on_the_wire, most
        on_the_wire += 1
        most = max(most, on_the_wire)
        await trio.sleep(0.01)
        on_the_wire -= 1
        await wire.reply(200, {})

    async with (
        scripted(script) as server,
        LimitedClient(ClientLimits(connections=2)) as client,
        trio.open_nursery() as nursery,
    ):
        for _ in range(8):
            nursery.start_soon(client.request, Call(method="GET", url=server.url))

    assert len(server.asked) == 8
    assert most == 2


async def test_the_environments_proxies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Internal tokens go to the gateway that was named, and nowhere else."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with scripted(fine) as server, LimitedClient() as client:
        answer = await client.request(Call(method="GET", url=server.url))

    assert answer.status == 200


async def test_a_client_that_was_not_opened_says_so() -> None:
    """A mistake of the program is told as one."""
    with pytest.raises(RuntimeError, match="async with"):
        await LimitedClient().request(Call(method="GET", url="http://x"))


def test_a_call_does_not_show_its_secrets() -> None:
    """Neither credentials nor bodies nor addresses are in a `repr` (I46)."""
    call = Call(
        method="POST",
        url="http://host/path?key=abc",
        headers={"authorization": "Bearer key-secret", "x-deepline-internal-token": "t-secret"},
        content=b"body-secret",
    )

    for secret in ("key-secret", "t-secret", "body-secret", "abc"):
        assert secret not in repr(call)


async def test_a_body_that_is_cut_short_leaves_nothing_behind() -> None:
    """A request that is cancelled while its body is being sent is quietly over."""
    never = trio.Event()

    async def deaf(_: trio.SocketStream) -> None:
        await never.wait()

    async with trio.open_nursery() as nursery, LimitedClient() as client:
        [listener] = await nursery.start(partial(trio.serve_tcp, deaf, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        with trio.move_on_after(0.3) as scope:
            await client.request(Call(method="POST", url=url, content=bytes(50 << 20)))
        gc.collect()
        nursery.cancel_scope.cancel()

    assert scope.cancelled_caught
