"""An emulated account for tests, operations nobody used, and programs in place of a runner."""

import contextlib
import io
import itertools
import subprocess
import sys
import uuid
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import trio

from deepline.adapters.asyncio_bridge import AsyncioBridge
from deepline.adapters.daytona import DaytonaSettings
from deepline.adapters.daytona.sdk import DaytonaSdk
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef, Stage
from deepline.ports.sandbox_provider import RunnerStart, SandboxProvider
from deepline.testing.emulators import DaytonaEmulator
from deepline.testing.emulators.daytona import KEY, ORGANISATION, State, Temper
from deepline.testing.emulators.marked_processes import kill_marked

ALIEN_KEY = "alien-key"
ALIEN_ORGANISATION = "alien-organisation"
PATIENCE_S = 40.0
WRITES_RESULT = """
import json
with open("result.json", "w") as file:
    json.dump({"status": "completed", "output": {"rows": 3}}, file)
"""
ENDLESS = "import time; time.sleep(3600)"
_numbers = itertools.count(1)


@contextlib.contextmanager
def started_emulator(state: Path) -> Iterator[DaytonaEmulator]:
    """An emulator as a process, outside of any one test's event loop."""
    command = [sys.executable, "-m", "deepline.testing.emulators.daytona", f"--state={state}"]
    command += [f"--key={KEY}={ORGANISATION}", f"--key={ALIEN_KEY}={ALIEN_ORGANISATION}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        emulator = DaytonaEmulator(process.stdout.readline().strip())
        yield emulator
        clear(emulator)
        process.terminate()


def clear(emulator: DaytonaEmulator) -> None:
    """Take everything away that a test left, its temper too."""
    emulator.clear_faults()
    even = Temper()
    emulator.behave(**{name: getattr(even, name) for name in Temper.__annotations__})
    for sandbox in emulator.sandboxes():
        emulator.force(sandbox.id, State.DESTROYED)
        kill_marked(sandbox.id)


def settings(emulator: DaytonaEmulator, key: str = KEY) -> DaytonaSettings:
    """What an adapter must know to use the emulator."""
    return DaytonaSettings(api_key=key, api_url=emulator.api_url)


def operation() -> Operation:
    """An intended create that nobody has."""
    token = uuid.uuid4().hex
    return Operation(
        key=f"key-{token}",
        token=token,
        name=f"dl-{token}",
        provider="daytona",
        org_id=OrgId("customer"),
        run_id=RunId(f"run-{next(_numbers)}"),
        attempt=1,
    )


def program(code: str) -> RunnerStart:
    """A runner that is this code."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", code)
    return RunnerStart(runner_pyz=buffer.getvalue(), environment={"SECRET": "hush-hush"})


async def started(provider: SandboxProvider, code: str = ENDLESS) -> SandboxRef:
    """A sandbox in which this code was started."""
    sandbox = await provider.create(operation(), Resources())
    await provider.start(sandbox, program(code))
    return sandbox


async def seen(
    provider: SandboxProvider, sandbox: SandboxRef, stage: Stage = Stage.COMMAND_EXITED
) -> Inspection:
    """Look until the sandbox is in that stage; the last look in any case."""
    deadline = trio.current_time() + PATIENCE_S
    while True:
        inspection = await provider.inspect(sandbox, command_id="runner")
        if inspection.stage is stage or trio.current_time() > deadline:
            return inspection
        await trio.sleep(0.02)


async def until(condition: Callable[[], bool]) -> bool:
    """Wait for something outside; False when it does not come."""
    deadline = trio.current_time() + PATIENCE_S
    while not condition():
        if trio.current_time() > deadline:
            return False
        await trio.sleep(0.02)
    return True


async def cut_short(work: Callable[[], Awaitable[object]], when: Callable[[], bool]) -> None:
    """Do something and cancel it at a moment."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        assert await until(when)
        nursery.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def opened_sdk(emulator: DaytonaEmulator) -> AsyncIterator[DaytonaSdk]:
    """The vendor's client alone."""
    async with AsyncioBridge() as bridge:
        sdk = DaytonaSdk(bridge, settings(emulator))
        await sdk.open()
        yield sdk
        await sdk.close()
