"""The processes of an emulated sandbox, found by a mark in their environment (Linux)."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "DEEPLINE_EMULATED_SANDBOX"
_KILL_S = 5.0


def marked(sandbox_id: str) -> Iterator[int]:
    """The ids of the live processes of the sandbox."""
    mark = f"{VARIABLE}={sandbox_id}".encode()
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (directory / "environ").read_bytes().split(b"\0"):
                    yield int(directory.name)


def kill_marked(sandbox_id: str) -> None:
    """Kill every process of the sandbox, those that are being born included."""
    until = time.monotonic() + _KILL_S
    while time.monotonic() < until:
        found = list(marked(sandbox_id))
        if not found:
            return
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.005)
