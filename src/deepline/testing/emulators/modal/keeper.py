"""The process that keeps one emulated sandbox: starts it, ends it, and writes down how it ended.

Run by its path, with the sandbox's directory as its argument and what to run on its standard input,
so that no environment is written to disk. It outlives the emulator, as a provider's machines do,
and holds `keeper.lock` for as long as it lives. SIGTERM terminates the sandbox once the delay in
`termination.json` has passed; SIGUSR1 ends it as the kernel ends what has no memory left.
"""

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SUBREAPER = 36
SIGNALS = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1})
ENDLESS_S = 3600.0
TIMED_OUT = ("timeout", 124)
TERMINATED = ("terminated", 137)
OUT_OF_MEMORY = ("failure", 137)


def main(directory: Path) -> int:
    """Keep the sandbox of this directory until nothing of it runs any more."""
    request = json.load(sys.stdin)
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    lock = os.open(directory / "keeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    with (directory / "stdout").open("wb") as out, (directory / "stderr").open("wb") as err:
        child = subprocess.Popen(
            request["arguments"],
            cwd=request["directory"],
            env=request["environment"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=_unblock,  # noqa: PLW1509 - this process has one thread
        )
    write(directory / "keeper.pid", str(os.getpid()))
    os.close(1)
    how, code = _ended(child, directory, time.monotonic() + request["timeout_s"])
    _kill_all()
    write(directory / "exit.json", json.dumps({"how": how, "code": code}))
    return 0


def write(path: Path, text: str) -> None:
    """Write a file at once or not at all."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _ended(child: subprocess.Popen[bytes], directory: Path, ends_at: float) -> tuple[str, int]:
    """Wait for whatever ends the sandbox first; the way it ended, and its code."""
    how_at_end = TIMED_OUT
    while (code := child.poll()) is None:
        left = min(ends_at - time.monotonic(), ENDLESS_S)
        if left <= 0:
            return how_at_end
        came = signal.sigtimedwait(SIGNALS, left)
        if came is None:
            continue
        if came.si_signo == signal.SIGUSR1:
            return OUT_OF_MEMORY
        if came.si_signo == signal.SIGTERM:
            asked = json.loads((directory / "termination.json").read_text())
            due = time.monotonic() + asked["delay_s"]
            if due < ends_at:
                how_at_end, ends_at = TERMINATED, due
        _reap(child.pid)
    return ("success" if code == 0 else "failure", code if code >= 0 else 128 - code)


def _reap(main_pid: int) -> None:
    """Take the orphans' exit codes, and leave that of the sandbox's own process."""
    for pid in _children():
        if pid != main_pid:
            os.waitpid(pid, os.WNOHANG)


def _children() -> list[int]:
    task = Path("/proc/self/task") / str(os.getpid()) / "children"
    return [int(pid) for pid in task.read_text().split()]


def _kill_all() -> None:
    """Kill what is left; the orphans of each kill become our children, until there are none."""
    while pids := _children():
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
