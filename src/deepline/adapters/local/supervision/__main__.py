"""Starts a supervisor, or with `inside` the small parent that a command has in its namespaces.

The request comes on standard input; it carries the executor token, which is therefore in no
argument and in no file. The answer on standard output is one line: `started`, `already`, or
`failed: why`.
"""

import contextlib
import ctypes
import fcntl
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from deepline.adapters.local.supervision import inner
from deepline.adapters.local.supervision.records import write_record
from deepline.adapters.local.supervision.request import REQUEST_BYTES_MAX, Request, decode
from deepline.adapters.local.supervision.supervisor import Supervision

PR_SET_CHILD_SUBREAPER = 36
LOCK_PATIENCE_S = 2.0


def take_lock(run: Path) -> bool:
    """Hold the lock until this process ends; False when the sandbox was started before.

    Anybody may ask whether we live by trying the lock; who asks holds it for a moment, hence the
    patience. `pid.json` stays for ever, which is why a sandbox runs at most once.
    """
    lock = os.open(run / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + LOCK_PATIENCE_S
    while not (run / "pid.json").exists() and time.monotonic() < until:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return not (run / "pid.json").exists()
    return False


def begin(run: Path, request: Request) -> None:
    """Put the staged files in place and write down that the one start has begun."""
    stage = Path(request.stage)
    for file in stage.iterdir():
        file.rename(Path(request.directory) / file.name)
    stage.rmdir()
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    record = {
        "pid": os.getpid(),
        "started": int(stat[19]),
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "isolation": request.isolation,
    }
    write_record(run / "pid.json", record)


def answer(text: str) -> None:
    """Tell whoever started us, and let go of the pipes to them."""
    with contextlib.suppress(OSError):
        os.write(1, text.encode() + b"\n")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)


def supervise(run: Path) -> int:
    """Detach, start at most once, see it through, write the end down."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    os.umask(0o077)
    try:
        if not take_lock(run):
            answer("already")
            return 0
        request = decode(sys.stdin.buffer.read(REQUEST_BYTES_MAX + 1))
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        begin(run, request)
    except (OSError, ValueError, TypeError) as failure:
        answer(f"failed: {type(failure).__name__}: {failure}"[:400])
        return 1
    answer("started")
    supervision = Supervision(run, request)
    supervision.supervise()
    write_record(run / "exit.json", supervision.exit_record())
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run `RUN_DIRECTORY`, or `inside STATUS COMMAND…`."""
    if arguments[0] == "inside":
        return inner.main(arguments[1:])
    return supervise(Path(arguments[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
