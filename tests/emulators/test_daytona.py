"""The emulated Daytona has the traps of the real one, driven by the vendor's own client."""

import asyncio
import signal
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from daytona import (
    AsyncDaytona,
    AsyncSandbox,
    CreateSandboxFromSnapshotParams,
    DaytonaConfig,
    DaytonaConflictError,
    DaytonaError,
    DaytonaNotFoundError,
    SessionExecuteRequest,
)

from deepline.adapters.asyncio_bridge import AsyncioBridge
from deepline.testing.emulators import DaytonaEmulator, FaultRule, running_daytona
from deepline.testing.emulators.daytona import KEY, ORGANISATION, State
from deepline.testing.emulators.marked_processes import kill_marked

pytestmark = pytest.mark.processes


@pytest.fixture
async def emulator(tmp_path: Path) -> AsyncIterator[DaytonaEmulator]:
    """An emulator of the test's own; what runs in it is killed."""
    async with running_daytona(tmp_path, keys={KEY: ORGANISATION, "other": "other"}) as emulator:
        yield emulator
        for sandbox in emulator.sandboxes():
            kill_marked(sandbox.id)


def client(emulator: DaytonaEmulator, key: str = KEY) -> AsyncDaytona:
    """The vendor's client, as anybody makes one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return AsyncDaytona(
            DaytonaConfig(
                api_key=key, api_url=emulator.api_url, target="us", use_deprecated_polling=True
            )
        )


async def driven(
    emulator: DaytonaEmulator, drive: Callable[[AsyncDaytona, AsyncSandbox], Awaitable[None]]
) -> None:
    """Make a sandbox with the vendor's client and do something with it."""

    async def work() -> None:
        async with client(emulator) as daytona:
            sandbox = await daytona.create(CreateSandboxFromSnapshotParams(name="one"), timeout=0)
            await drive(daytona, sandbox)

    async with AsyncioBridge() as bridge:
        await bridge.run(work)


async def test_names_and_their_ends(emulator: DaytonaEmulator) -> None:
    """A name is taken until its delete is accepted, and then free before the sandbox is gone."""
    emulator.behave(destroy_delay_s=3_600)

    async def drive(daytona: AsyncDaytona, sandbox: AsyncSandbox) -> None:
        with pytest.raises(DaytonaConflictError):
            await daytona.create(CreateSandboxFromSnapshotParams(name="one"), timeout=0)
        await sandbox.delete(0)
        assert (await daytona.get(sandbox.id)).name.startswith("DESTROYED_one_")
        with pytest.raises(DaytonaNotFoundError):
            await daytona.get("one")
        await daytona.create(CreateSandboxFromSnapshotParams(name="one"), timeout=0)
        with pytest.raises(DaytonaConflictError):
            await sandbox.delete(0)
        emulator.behave(destroy_delay_s=0)
        while True:
            try:
                await daytona.get(sandbox.id)
            except DaytonaNotFoundError:
                return
            await asyncio.sleep(0.02)

    await driven(emulator, drive)

    assert len(emulator.sandboxes()) == 1


async def test_sessions_source_their_commands(emulator: DaytonaEmulator) -> None:
    """An exit ends the shell and its code is never seen; a shell of the command's own is safe."""

    async def drive(_: AsyncDaytona, sandbox: AsyncSandbox) -> None:
        process = sandbox.process
        await process.create_session("s")
        safe = await process.execute_session_command(
            "s", SessionExecuteRequest(command="sh -c 'echo hi; exit 4'", run_async=False)
        )
        assert (safe.exit_code, safe.stdout) == (4, "hi\n")
        trap = await process.execute_session_command(
            "s", SessionExecuteRequest(command="exit 4", run_async=True)
        )
        assert trap.cmd_id is not None
        await asyncio.sleep(0.1)
        assert (await process.get_session_command("s", trap.cmd_id)).exit_code is None
        emulator.lose_sessions(sandbox.id)
        with pytest.raises(DaytonaNotFoundError):
            await process.get_session_command("s", trap.cmd_id)

    await driven(emulator, drive)


async def test_files_and_commands(emulator: DaytonaEmulator) -> None:
    """What is uploaded is there for commands, byte by byte, and comes back."""
    content = bytes(range(256)) * 600 + b"\r\n--boundary\r\n"

    async def drive(_: AsyncDaytona, sandbox: AsyncSandbox) -> None:
        await sandbox.fs.upload_file(content, "a directory/a file")
        counted = await sandbox.process.exec("wc -c < 'a directory/a file'; exit 3", timeout=5)
        assert (counted.exit_code, counted.result.strip()) == (3, str(len(content)))
        assert await sandbox.fs.download_file("a directory/a file") == content
        with pytest.raises(DaytonaNotFoundError):
            await sandbox.fs.download_file("nothing")
        with pytest.raises(DaytonaError):
            await sandbox.process.exec("sleep 5", timeout=1)

    await driven(emulator, drive)


async def test_organisations_do_not_see_each_other(emulator: DaytonaEmulator) -> None:
    """Another organisation's sandbox is not found, and a wrong key is told from that."""

    async def drive(_: AsyncDaytona, sandbox: AsyncSandbox) -> None:
        async with client(emulator, "other") as other:
            with pytest.raises(DaytonaNotFoundError):
                await other.get(sandbox.id)
        async with client(emulator, "stolen") as thief:
            with pytest.raises(DaytonaError) as refused:
                await thief.get(sandbox.id)
            assert refused.value.status_code == 401

    await driven(emulator, drive)


async def test_an_answer_of_another_organisation(emulator: DaytonaEmulator) -> None:
    """To order a call is answered as if its key were somebody else's."""

    async def drive(daytona: AsyncDaytona, sandbox: AsyncSandbox) -> None:
        emulator.fault(FaultRule(calls="GET /api/sandbox/.*", foreign=True))
        with pytest.raises(DaytonaNotFoundError):
            await daytona.get(sandbox.id)
        assert emulator.faults_hit() == [1]
        assert (await daytona.get(sandbox.id)).id == sandbox.id

    await driven(emulator, drive)


async def test_an_effect_that_comes_late(emulator: DaytonaEmulator) -> None:
    """To order a create comes about after its caller has lost the connection."""

    async def drive(daytona: AsyncDaytona, _: AsyncSandbox) -> None:
        rule = FaultRule(calls="POST /api/sandbox", lost=True, after_effect=True, late_s=0.3)
        emulator.fault(rule)
        with pytest.raises(DaytonaError):
            await daytona.create(CreateSandboxFromSnapshotParams(name="late"), timeout=0)
        assert [one.name for one in emulator.sandboxes()] == ["one"]
        while len(emulator.sandboxes()) < 2:
            await asyncio.sleep(0.02)
        assert (await daytona.get("late")).name == "late"

    await driven(emulator, drive)


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Emulators that a test starts by itself."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def start(state: Path, processes: list[subprocess.Popen[str]]) -> DaytonaEmulator:
    """An emulator as a user starts one."""
    command = [sys.executable, "-m", "deepline.testing.emulators.daytona", f"--state={state}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    processes.append(process)
    assert process.stdout is not None
    return DaytonaEmulator(process.stdout.readline().strip())


async def test_a_killed_emulator_comes_back(
    tmp_path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    """Sandboxes, what runs in them detached, and calls outlive the emulator's process."""
    first = start(tmp_path, processes)

    async def drive(_: AsyncDaytona, sandbox: AsyncSandbox) -> None:
        await sandbox.process.exec("setsid -f sleep 3600 </dev/null >/dev/null 2>&1", timeout=5)

    await driven(first, drive)
    processes[0].send_signal(signal.SIGKILL)
    processes[0].wait()

    second = start(tmp_path, processes)

    (found,) = second.sandboxes()
    assert (found.name, found.state) == ("one", State.STARTED)
    assert second.processes(found.id) == 1
    assert second.calls()[0] == "POST /api/sandbox"
    kill_marked(found.id)
