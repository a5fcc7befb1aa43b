"""The emulator of Modal as the vendor's own client sees it, without anything of ours between."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
import modal
import pytest
import trio

from deepline.adapters.asyncio_bridge import AsyncioBridge
from deepline.adapters.modal import ModalAccount
from deepline.adapters.modal.client import Opened, open_client
from deepline.testing.emulators.modal import (
    ACCOUNT,
    EmulatorNotStarted,
    ModalEmulator,
    Temper,
    modal_emulator,
    running_modal,
    started_modal,
)
from tests.adapters.modal.scene import PATIENCE_S, new_operation

pytestmark = pytest.mark.processes


def account_of(emulator: ModalEmulator) -> ModalAccount:
    """The account that an emulator has unless told otherwise."""
    return ModalAccount(token_id=ACCOUNT[0], token_secret=ACCOUNT[1], server_url=emulator.url)


@pytest.fixture(scope="module")
def shared_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModalEmulator]:
    """An emulator for all tests here; what runs in it ends with it."""
    with modal_emulator(tmp_path_factory.mktemp("modal")) as emulator:
        yield emulator


@pytest.fixture
def emulator(shared_emulator: ModalEmulator) -> ModalEmulator:
    """The emulator as it is when nothing is wrong."""
    shared_emulator.clear_faults()
    shared_emulator.behave(**attrs.asdict(Temper()))
    return shared_emulator


@pytest.fixture
async def bridge() -> AsyncIterator[AsyncioBridge]:
    """Where the vendor's client runs."""
    async with AsyncioBridge() as bridge:
        yield bridge


@pytest.fixture
async def opened(bridge: AsyncioBridge, emulator: ModalEmulator) -> AsyncIterator[Opened]:
    """The vendor's client of our account."""
    opened = await bridge.run(lambda: open_client(account_of(emulator)))
    yield opened
    with trio.move_on_after(5, shield=True):
        await bridge.run(opened.client.close.aio)


async def made(bridge: AsyncioBridge, opened: Opened, *command: str) -> Any:
    """A sandbox that runs this."""
    return await bridge.run(
        lambda: modal.Sandbox.create.aio(
            *command,
            app=opened.app,
            name=new_operation().name,
            tags={"kind": "try"},
            image=opened.image,
            timeout=60,
            client=opened.client,
        )
    )


async def test_programs_and_files(bridge: AsyncioBridge, opened: Opened) -> None:
    """A program beside the sandbox's own reads what is piped in; files go both ways."""
    sandbox = await made(bridge, opened, "sleep", "60")
    body = b"x" * 3_000_000

    async def run() -> tuple[str, int]:
        process = await sandbox.exec.aio("sh", "-c", "cat; exit 4")
        process.stdin.write(b"through")
        process.stdin.write_eof()
        await process.stdin.drain.aio()
        return await process.stdout.read.aio(), await process.wait.aio()

    async def write_and_read() -> bytes:
        await sandbox.filesystem.write_bytes.aio(body, "/deep/down/file")
        return bytes(await sandbox.filesystem.read_bytes.aio("/deep/down/file"))

    assert await bridge.run(run) == ("through", 4)
    assert await bridge.run(write_and_read) == body
    with pytest.raises(modal.exception.SandboxFilesystemNotFoundError):
        await bridge.run(lambda: sandbox.filesystem.read_bytes.aio("/none"))


async def test_what_is_left_of_an_ended_sandbox(bridge: AsyncioBridge, opened: Opened) -> None:
    """Its code and what it printed stay; its files do not."""
    sandbox = await made(bridge, opened, "sh", "-c", "echo said; exit 3")

    await bridge.run(sandbox.wait.aio)

    assert sandbox.returncode == 3
    assert await bridge.run(sandbox.stdout.read.aio) == "said\n"
    with pytest.raises(modal.exception.NotFoundError):
        await bridge.run(lambda: sandbox.filesystem.read_bytes.aio("/file"))


async def test_listings_come_in_pages_and_late(
    bridge: AsyncioBridge, opened: Opened, emulator: ModalEmulator
) -> None:
    """The vendor's client walks all pages, and sees a sandbox once the listing has caught up."""
    sandboxes = [await made(bridge, opened, "sleep", "60") for _ in range(3)]

    async def listed() -> set[str]:
        found = modal.Sandbox.list.aio(
            app_id=opened.app.app_id, tags={"kind": "try"}, client=opened.client
        )
        return {one.object_id async for one in found}

    emulator.behave(page_size=1)
    assert {one.object_id for one in sandboxes} <= await bridge.run(listed)
    emulator.behave(list_lag_s=60)
    assert not {one.object_id for one in sandboxes} & await bridge.run(listed)


@pytest.mark.slow
async def test_a_crashed_emulator_finds_its_sandboxes(
    bridge: AsyncioBridge, tmp_path: Path
) -> None:
    """Its state is on disk, and what runs goes on without it; a stopped one ends everything."""
    emulator, process = started_modal(tmp_path)
    opened = await bridge.run(lambda: open_client(account_of(emulator)))
    goes_on = await made(bridge, opened, "sleep", "60")
    ends = await made(bridge, opened, "sh", "-c", "sleep 0.3; exit 5")
    process.kill()
    process.wait()

    with modal_emulator(tmp_path, port=urlsplit(emulator.url).port or 0) as again:
        # The client that was there before goes on with it.
        assert await bridge.run(goes_on.poll.aio) is None
        with trio.fail_after(PATIENCE_S):
            while await bridge.run(ends.poll.aio) != 5:
                await trio.sleep(0.05)
        by_id = {one.sandbox_id: one for one in again.sandboxes(alive=False)}
        assert by_id[goes_on.object_id].how is None
        assert (by_id[ends.object_id].how, by_id[ends.object_id].code) == ("failure", 5)
        assert by_id[ends.object_id].tags == {"kind": "try"}

    await bridge.run(opened.client.close.aio)
    async with running_modal(tmp_path) as last:
        assert last.sandboxes() == []


def test_an_emulator_that_cannot_start_says_so(tmp_path: Path) -> None:
    """Whoever waits for it is told, not kept waiting."""
    (tmp_path / "file").touch()

    with pytest.raises(EmulatorNotStarted, match="ended with code"):
        started_modal(tmp_path / "file")
