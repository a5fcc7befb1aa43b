"""Programs that are run inside an emulated sandbox beside its own."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs

from deepline.testing.emulators.modal import filesystem_tool
from deepline.testing.emulators.modal.filesystem_tool import ToolFailed

PIECE_BYTES = 65_536
LOOK_S = 0.05


@attrs.define(eq=False)
class Execution:
    """One program: what was piped in, what it printed, and how it ended."""

    task_id: str
    output: bytearray = attrs.field(factory=bytearray)
    errors: bytearray = attrs.field(factory=bytearray)
    given: bytearray = attrs.field(factory=bytearray)
    given_all: asyncio.Event = attrs.field(factory=asyncio.Event)
    ended: asyncio.Event = attrs.field(factory=asyncio.Event)
    code: int | None = None
    process: asyncio.subprocess.Process | None = None

    def give(self, content: bytes) -> None:
        """Pipe something in."""
        self.given += content
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.write(content)

    def close_input(self) -> None:
        """End what is piped in."""
        self.given_all.set()
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()

    def end(self, code: int) -> None:
        """Note how it ended."""
        self.code = code
        self.ended.set()


async def run_tool(execution: Execution, command: str, place: Callable[[str], Path]) -> None:
    """Be the file system tool."""
    if filesystem_tool.wants_input(command):
        await execution.given_all.wait()
    try:
        execution.output += filesystem_tool.perform(command, bytes(execution.given), place)
    except ToolFailed as failure:
        execution.errors += failure.printed
        execution.end(1)
    else:
        execution.end(0)


async def start_program(
    execution: Execution,
    arguments: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
) -> None:
    """Start a program; raises `OSError` when it cannot be."""
    execution.process = await asyncio.create_subprocess_exec(
        *arguments,
        cwd=directory,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


async def follow_program(execution: Execution, goes_on: Callable[[], bool]) -> None:
    """Take in what the program prints until it ends, or kill it once its sandbox has ended."""
    process = execution.process
    assert process is not None
    assert process.stdout is not None
    assert process.stderr is not None
    killer = asyncio.create_task(_kill_with_sandbox(process, goes_on))
    try:
        await asyncio.gather(
            _take(process.stdout, execution.output), _take(process.stderr, execution.errors)
        )
        code = await process.wait()
        execution.end(code if code >= 0 else 128 - code)
    finally:
        killer.cancel()


async def _take(stream: asyncio.StreamReader, into: bytearray) -> None:
    while piece := await stream.read(PIECE_BYTES):
        into += piece


async def _kill_with_sandbox(
    process: asyncio.subprocess.Process, goes_on: Callable[[], bool]
) -> None:
    while goes_on():  # noqa: ASYNC110 - a file appears
        await asyncio.sleep(LOOK_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
