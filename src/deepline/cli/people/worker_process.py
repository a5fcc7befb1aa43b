"""A worker as a process of its own, to be killed."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

STOP_S = 15.0
KILL_S = 5.0
TAIL_BYTES = 4_096


@asynccontextmanager
async def worker_process(variables: Mapping[str, str], log: Path) -> AsyncIterator[trio.Process]:
    """`deepline worker` for the length of a block, unless it ends before; what it says is in `log`.

    It is asked to stop at the end, and killed when it does not.
    """
    with log.open("ab") as said:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "deepline.cli", "worker"],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={**os.environ, **variables},
            # A Ctrl-C in the terminal is for us; we end it when we end.
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with trio.move_on_after(STOP_S + KILL_S, shield=True):
            await _end(process)


async def _end(process: trio.Process) -> None:
    if process.poll() is None:
        process.terminate()
        with trio.move_on_after(STOP_S):
            await process.wait()
            return
        process.kill()
    await process.wait()


def last_line(log: Path) -> str:
    """The last thing that a log says, for whoever asks why."""
    with log.open("rb") as said:
        said.seek(max(0, log.stat().st_size - TAIL_BYTES))
        lines = said.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
