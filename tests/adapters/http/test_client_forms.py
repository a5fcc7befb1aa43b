"""The same client for scripts and for asyncio programs, each against a real gateway."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio

from deepline.adapters.http.api_client import ApiAddress, ApiClient
from deepline.adapters.http.asyncio_client import AsyncioClient, AsyncioRun
from deepline.adapters.http.blocking_client import BlockingClient
from deepline.adapters.http.portal import PortalClosed
from deepline.adapters.http.run_reading import LogEntry, SheetRow
from deepline.adapters.runner_bundle import BundleRefused
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from deepline.ports.errors import NotFound, Unavailable
from tests.adapters.http.client_forms import REQUEST, ROWS, RUN, perform
from tests.gateway.deployment import ALICE, deployed

T = TypeVar("T")
Seen = tuple[Json, list[SheetRow], list[LogEntry], list[int], bool]


async def beside_a_gateway(program: Callable[[ApiAddress], T]) -> T:
    """Let a program that blocks run in a thread, beside a gateway and a worker that plays along."""
    with trio.fail_after(20):
        async with deployed() as gateway, trio.open_nursery() as nursery:
            nursery.start_soon(perform, gateway)
            answer = await trio.to_thread.run_sync(program, ApiAddress(gateway.url, ALICE))
    return answer


def check(seen: Seen) -> None:
    """What each form must have seen of the run."""
    status, rows, lines, sizes, stored = seen

    assert status == "completed"
    assert [row.row_index for row in rows] == list(range(ROWS))
    assert rows[7] == SheetRow(row_index=7, input_row={"n": 7}, output={"twice": 14}, error=None)
    assert [line.text for line in lines] == ["one", "two"]
    assert lines[0].fields == {"n": 1}
    assert sizes[0] > 1_000
    assert stored


async def test_a_run_that_is_not_there_is_a_plain_error() -> None:
    """Following a run that a real gateway does not know raises `NotFound` itself."""
    with trio.fail_after(20):
        async with deployed() as gateway, ApiClient(ApiAddress(gateway.url, ALICE)) as client:
            raised: Exception | None = None
            try:
                async with client.logs(RunId("run_nowhere")) as log:
                    await anext(log)
            except NotFound as error:
                raised = error

    assert isinstance(raised, NotFound)


async def test_from_trio(tmp_path: Path) -> None:
    """Submit, attach, rows, log, signal, wait, download: the form that the others rest on."""
    with trio.fail_after(20):
        async with deployed() as gateway, trio.open_nursery() as nursery:
            nursery.start_soon(perform, gateway)
            async with ApiClient(ApiAddress(gateway.url, ALICE)) as client:
                await client.submit(REQUEST)
                run = client.attach(RUN)
                lines, stored = [], False
                async with run.logs() as log:
                    async for line in log:
                        lines.append(line)
                        if line.text == "one":
                            stored = await run.signal("approved", {"by": "ann"})
                ended = await run.wait()
                rows = [row async for row in run.rows("leads")]
                size = await run.download("leads", tmp_path / "leads.csv")

    check((ended["status"], rows, lines, [size], stored))


def script(tmp_path: Path) -> Callable[[ApiAddress], Seen]:
    """A program without an event loop."""

    def main(address: ApiAddress) -> Seen:
        with BlockingClient(address) as client:
            submitted = client.submit(REQUEST)
            assert submitted.receipt is not None
            assert submitted.receipt.run_created
            run = client.attach(submitted.run_id)
            lines, stored = [], False
            for line in run.logs():
                lines.append(line)
                if line.text == "one":
                    stored = run.signal("approved", {"by": "ann"})
            ended = run.wait()
            rows = list(run.rows("leads"))
            size = run.download("leads", tmp_path / "leads.csv")
            return ended["status"], rows, lines, [size], stored

    return main


async def test_from_a_script(tmp_path: Path) -> None:
    """Each call blocks until its answer; a program needs no event loop of its own."""
    check(await beside_a_gateway(script(tmp_path)))


async def test_from_asyncio(tmp_path: Path) -> None:
    """The same on asyncio, where other tasks go on meanwhile."""

    async def main(address: ApiAddress) -> Seen:
        async with AsyncioClient(address) as client:
            run = await client.submit(REQUEST)
            waiting = asyncio.create_task(run.wait())
            lines, stored = [], False
            async for line in client.attach(RUN).logs():
                lines.append(line)
                if line.text == "one":
                    stored = await run.signal("approved", {"by": "ann"})
            ended = await waiting
            rows = [row async for row in run.rows("leads")]
            size = await run.download("leads", tmp_path / "leads.csv")
            return ended["status"], rows, lines, [size], stored

    check(await beside_a_gateway(lambda address: asyncio.run(main(address))))


def on_asyncio(
    main: Callable[[AsyncioClient], Coroutine[Any, Any, T]],
) -> Callable[[ApiAddress], T]:
    """A program on asyncio, with its client open."""

    async def opened(address: ApiAddress) -> T:
        async with AsyncioClient(address) as client:
            return await main(client)

    return lambda address: asyncio.run(opened(address))


async def alone(program: Callable[[ApiAddress], T]) -> T:
    """Let a program run beside a gateway whose runs nobody works on."""
    with trio.fail_after(20):
        async with deployed() as gateway:
            address = ApiAddress(gateway.url, ALICE)
            return await trio.to_thread.run_sync(program, address)


async def test_a_script_waits_no_longer_than_it_wants() -> None:
    """A time limit ends the wait, not the run, and its client works on."""

    def main(address: ApiAddress) -> tuple[float, Json]:
        with BlockingClient(address) as client:
            run = client.submit(REQUEST)
            began = time.monotonic()
            with pytest.raises(TimeoutError), client.time_limit(60), client.time_limit(0.2):
                run.wait()
            return time.monotonic() - began, run.show()["status"]

    took_s, status = await alone(main)

    assert 0.15 < took_s < 5
    assert status == "queued"


async def test_a_task_is_cancelled_at_once() -> None:
    """Cancelling a task, or a timeout of asyncio, ends its call; the client works on."""

    async def main(client: AsyncioClient) -> Json:
        run = await client.submit(REQUEST)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run.wait(), 0.1)
        cancelled = asyncio.create_task(_first_line(run))
        await asyncio.sleep(0.05)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await run.cancel("enough")
        return (await run.wait())["status"]

    assert await alone(on_asyncio(main)) == "cancelled"


async def _first_line(run: AsyncioRun) -> LogEntry:
    async with run.logs() as lines:
        return await anext(lines)


async def test_errors_come_as_they_are() -> None:
    """What a gateway refuses, and a log that does not exist, raise the errors of the Trio form."""

    def main(address: ApiAddress) -> None:
        with BlockingClient(address) as client:
            stranger = client.attach(RunId("run_0"))
            with pytest.raises(NotFound):
                stranger.show()
            with pytest.raises(NotFound):
                list(stranger.logs())
            with pytest.raises(NotFound):
                list(client.submit(REQUEST).rows("nothing"))
            with pytest.raises(BundleRefused):
                client.submit_play("no/such/play.py")

    await alone(main)


async def test_a_play_from_disk(tmp_path: Path) -> None:
    """A play is packed, stored and submitted in one call; retries and lists see it."""
    (tmp_path / "greet.py").write_text("def play(ctx, input):\n    return input\n")

    def main(address: ApiAddress) -> tuple[Json, Json, list[Json]]:
        with BlockingClient(address) as client:
            run = client.submit_play(tmp_path / "greet.py", {"n": 1}, options={"ceilingMs": 60_000})
            run.cancel()
            again = run.retry()
            sentence = again.explain()["sentence"]
            names = [one["playName"] for one in client.list_runs().runs]
            return run.show()["retriedAs"], sentence, names

    retried_as, sentence, names = await alone(main)

    assert isinstance(retried_as, str)
    assert isinstance(sentence, str)
    assert names == ["greet", "greet"]


def test_a_client_is_used_while_it_is_open() -> None:
    """Before and after its block every call says so, and leaving it leaves no thread behind."""
    client = BlockingClient(ApiAddress("http://127.0.0.1:9", ALICE))
    with pytest.raises(PortalClosed):
        client.list_runs()
    with client, pytest.raises(Unavailable):
        client.list_runs()
    with pytest.raises(PortalClosed):
        client.list_runs()
    with pytest.raises(PortalClosed):
        client.__enter__()

    assert "deepline-client" not in {thread.name for thread in threading.enumerate()}


def test_leaving_ends_what_another_thread_waits_for() -> None:
    """A call in another thread is answered when the client is closed, not left hanging."""
    failures: list[BaseException] = []
    client = BlockingClient(ApiAddress("http://127.0.0.1:9", ALICE))

    started = threading.Event()

    async def hang(_: ApiClient) -> None:
        started.set()
        await trio.sleep_forever()

    def wait() -> None:
        try:
            client.call(hang)
        except PortalClosed as error:
            failures.append(error)

    with client:
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert started.wait(5)
    waiting.join(5)

    assert len(failures) == 1
