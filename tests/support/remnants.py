"""Which processes belong to a directory of the tests, and how to make an end of them.

    python -m tests.support.remnants DIRECTORY

waits for the end of its input, which comes however the tests end, and then leaves nothing of the
directory: no process and no file.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROUNDS = 100
PAUSE_S = 0.1


def processes_of(directory: Path) -> Sequence[int]:
    """Every live process that names the directory, works in it, or was started for it."""
    return [pid for pid in _others() if _belongs(pid, directory)]


def kill_all(directory: Path) -> bool:
    """Kill what belongs to the directory until nothing does; False when it does not end."""
    for _ in range(ROUNDS):
        left = processes_of(directory)
        if not left:
            return True
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(PAUSE_S)
    return False


def nothing_left(directory: Path) -> bool:
    """Whether no process of the directory is there; dead ones may take a moment to go."""
    for _ in range(ROUNDS):
        if not processes_of(directory):
            return True
        time.sleep(PAUSE_S)
    return False


def descendants(pid: int) -> Sequence[int]:
    """Every process that a process started, and those that they started."""
    children = (Path("/proc") / str(pid) / "task" / str(pid) / "children").read_text().split()
    return [below for child in map(int, children) for below in (child, *descendants(child))]


def described(pids: Sequence[int]) -> Sequence[str]:
    """What the processes are, for a message."""
    return [f"{pid}: {_read(pid, 'cmdline').replace(bytes(1), b' ')[:200]!r}" for pid in pids]


def _others() -> Sequence[int]:
    mine = {os.getpid(), os.getppid()}
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and int(entry.name) not in mine
    ]


def _belongs(pid: int, directory: Path) -> bool:
    name = os.fsencode(directory)
    command = _read(pid, "cmdline")
    if b"tests.support.remnants" in command:
        return False
    if name in command or name in _read(pid, "environ"):
        return True
    try:
        return (Path("/proc") / str(pid) / "cwd").readlink().is_relative_to(directory)
    except OSError:
        return False


def _read(pid: int, what: str) -> bytes:
    try:
        return (Path("/proc") / str(pid) / what).read_bytes()
    except OSError:
        return b""


def main() -> None:
    """Outlive the tests, then clear up."""
    directory = Path(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    kill_all(directory)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
