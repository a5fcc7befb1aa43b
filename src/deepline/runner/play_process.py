"""The process in which a play runs, apart from the runner, so that nothing it does harms it (F21).

It has a session of its own. The runner adopts whatever the play leaves behind and kills it too.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from deepline.runner.messages import Line

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
KILL_ROUNDS_MAX = 50


class PlayProcess:
    """A started play, with its line and the pipes of its output."""

    def __init__(self, process: subprocess.Popen[bytes], line: Line) -> None:
        self._process = process
        self.line = line
        assert process.stdout is not None
        assert process.stderr is not None
        self.pipes = {
            "stdout": os.dup(process.stdout.fileno()),
            "stderr": os.dup(process.stderr.fileno()),
        }
        process.stdout.close()
        process.stderr.close()

    def wait(self) -> int:
        """Wait for the end; returns the exit code, negative for a signal."""
        return self._process.wait()

    def kill(self) -> None:
        """Kill the play and everything below this process, however it was detached."""
        for _ in range(KILL_ROUNDS_MAX):
            left = _descendants()
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            if not left:
                break
            time.sleep(0.01)
        # Where no process can be seen, the sandbox ends with us; the play itself is ours to end.
        with contextlib.suppress(OSError):
            self._process.kill()

    def _reap(self) -> None:
        """Take note of adopted children that ended; the play's own process is `wait`'s."""
        for pid, (parent, state) in _processes().items():
            if parent == os.getpid() and state == "Z" and pid != self._process.pid:
                with contextlib.suppress(OSError):
                    os.waitpid(pid, os.WNOHANG)


def start_play(program: Sequence[str]) -> PlayProcess:
    """Start `program` with the number of its end of the line as the last argument.

    To be called from the main thread: the play dies with the thread that started it.
    """
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [*program, str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )
    theirs.close()
    return PlayProcess(process, Line(ours))


def own_program() -> list[str]:
    """The command line that runs this same program once more, for a play."""
    return [sys.executable, "-I", sys.argv[0], "play"]


def become_guardian() -> None:
    """Adopt what plays leave behind, and close our memory and environment to them."""
    with contextlib.suppress(OSError, AttributeError):
        system = ctypes.CDLL(None)
        system.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        system.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _processes() -> dict[int, tuple[int, str]]:
    """The parent and the state of each process, as far as they can be seen."""
    found: dict[int, tuple[int, str]] = {}
    with contextlib.suppress(OSError):
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    fields = (directory / "stat").read_text().rpartition(")")[2].split()
                    found[int(directory.name)] = (int(fields[1]), fields[0])
    return found


def _descendants() -> list[int]:
    """All live processes below this one."""
    processes = _processes()
    below = {os.getpid()}
    while True:
        more = {pid for pid, (parent, _) in processes.items() if parent in below} - below
        if not more:
            break
        below |= more
    return [pid for pid in below if pid != os.getpid() and processes[pid][1] not in "ZX"]
