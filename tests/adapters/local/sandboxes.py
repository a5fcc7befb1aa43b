"""Small programs in place of a runner, and ways to look at what became of them."""

import contextlib
import io
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import trio

from deepline.adapters.local import Isolation, Keeping, LocalProvider
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef, Stage
from deepline.ports.sandbox_provider import RunnerStart

WORKER = """
import sys, time, trio
from pathlib import Path
from tests.adapters.local.sandboxes import provider_at, started

async def work():
    await started(provider_at(Path(sys.argv[1])), sys.argv[2])
    print("started", flush=True)
    time.sleep(60)

trio.run(work)
"""
PATIENCE_S = 15.0
PYTHON = Path(sys.executable)
QUICK = Keeping(grace_s=0.4, output_head_bytes=2000, output_tail_bytes=500)


PATIENT = attrs.evolve(QUICK, grace_s=PATIENCE_S)


def provider_at(
    root: Path,
    isolation: Isolation = Isolation.NONE,
    org: str = "acme",
    keeping: Keeping = QUICK,
) -> LocalProvider:
    """A provider whose supervisors have little patience, unless told otherwise."""
    return LocalProvider(root, org, isolation, PYTHON, keeping=keeping)


def operation(name: str = "dl-one", token: str = "token-one") -> Operation:
    """An intended create."""
    return Operation(
        key=f"key-{name}",
        token=token,
        name=name,
        provider="local",
        org_id=OrgId("customer"),
        run_id=RunId("run-1"),
        attempt=1,
    )


def program(code: str) -> RunnerStart:
    """A runner that is this code."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", code)
    return RunnerStart(runner_pyz=buffer.getvalue(), environment={"SECRET": "hush-hush"})


async def started(
    provider: LocalProvider, code: str, resources: Resources | None = None, name: str = "dl-one"
) -> SandboxRef:
    """A sandbox in which this code was started."""
    sandbox = await provider.create(operation(name), resources or Resources())
    await provider.start(sandbox, program(code))
    return sandbox


async def seen(
    provider: LocalProvider, sandbox: SandboxRef, stage: Stage = Stage.COMMAND_EXITED
) -> Inspection:
    """Look until the sandbox is in that stage; the last look in any case."""
    deadline = trio.current_time() + PATIENCE_S
    while True:
        inspection = await provider.inspect(sandbox, command_id="runner")
        if inspection.stage is stage or trio.current_time() > deadline:
            return inspection
        await trio.sleep(0.02)


def home(root: Path, name: str = "dl-one", org: str = "acme") -> Path:
    """Where the sandbox is on disk."""
    return root / org / name


async def until(condition: Callable[[], bool]) -> bool:
    """Wait for something outside; False when it does not come."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        await trio.sleep(0.02)
    return True


@contextlib.contextmanager
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any sandbox."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


def start_and_be_killed(root: Path, code: str) -> None:
    """Be a worker of its own that starts this code in a sandbox and is killed at once."""
    command = [sys.executable, "-c", WORKER, str(root), code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "started\n"
        worker.kill()


def alive(text: str) -> list[int]:
    """The processes whose arguments hold that text, zombies left out."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != os.getpid():
            with contextlib.suppress(OSError):
                if text.encode() in (directory / "cmdline").read_bytes():
                    found.append(int(directory.name))
    return found
