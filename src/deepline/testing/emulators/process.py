"""An emulator as a process of its own, for as long as a block."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

_START_S = 60.0
_LEAVE_S = 5.0
_LINE_MAX = 1_000


@asynccontextmanager
async def emulator_process(
    module: str, state: Path, port: int, arguments: Sequence[str]
) -> AsyncGenerator[str]:
    """Run `python -m module` and hand out the URL that it says it serves.

    Raises `RuntimeError` when it does not come up. Leaving terminates the process.
    """
    command = [sys.executable, "-m", module, f"--state={state}", f"--port={port}", *arguments]
    process = await trio.lowlevel.open_process(command, stdin=None, stdout=-1)
    assert process.stdout is not None
    try:
        url = ""
        with trio.move_on_after(_START_S):
            url = await _first_line(process.stdout)
        if not url:
            raise RuntimeError(f"{module} did not come up; it says why on standard error")
        yield url
    finally:
        process.terminate()
        with trio.move_on_after(_LEAVE_S, shield=True):
            await process.wait()
        process.kill()
        with trio.move_on_after(_LEAVE_S, shield=True):
            await process.wait()
            await process.stdout.aclose()


async def _first_line(stream: trio.abc.ReceiveStream) -> str:
    said = b""
    while b"\n" not in said and len(said) < _LINE_MAX:
        chunk = await stream.receive_some()
        if not chunk:
            return ""
        said += chunk
    return said.decode().strip()
