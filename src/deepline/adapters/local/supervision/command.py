"""Turning the supervisor's forked child into the command, under its limits."""

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from deepline.adapters.local.supervision.request import Request

PR_SET_PDEATHSIG = 1
DEFAULT_AGAIN = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGCHLD,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)
DATA_SLACK_BYTES = 512 << 20
"""Memory that threads reserve but do not touch; the watch counts what is really used."""


def become(
    request: Request, *, supervisor: int, outputs: Sequence[int], status: int | None, error: int
) -> NoReturn:
    """Turn this forked process into the command; it dies with the supervisor.

    `outputs` are where standard output and error go; why the command could not be started is
    written to `error`, which closes by itself when it could.
    """
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == supervisor:
            for number in DEFAULT_AGAIN:
                signal.signal(number, signal.SIG_DFL)
            _limit(request)
            _connect(outputs)
            os.chdir(request.directory)
            command = list(request.command)
            if status is not None and request.status_argument is not None:
                os.set_inheritable(status, True)  # noqa: FBT003 - positional-only
                command[request.status_argument] = str(status)
            os.execve(command[0], command, dict(request.environment))  # noqa: S606 - no shell is meant
    except (OSError, ValueError) as failure:
        os.write(error, f"{type(failure).__name__}: {failure}".encode()[:400])
    os._exit(127)


def _connect(outputs: Sequence[int]) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for target, output in zip((1, 2), outputs, strict=True):
        os.dup2(output, target)


def _limit(request: Request) -> None:
    """Set what the kernel enforces by itself; the rest is watched."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if request.memory_bytes is not None:
        data_bytes = request.memory_bytes + DATA_SLACK_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, data_bytes))
    if request.cpu_s is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (request.cpu_s, request.cpu_s))
    if request.cpu_count is not None:
        allowed = sorted(os.sched_getaffinity(0))
        # Sandboxes side by side begin at different processors.
        first = os.getpid() % len(allowed)
        turned = allowed[first:] + allowed[:first]
        os.sched_setaffinity(0, turned[: max(1, request.cpu_count)])
    # When the machine runs out of memory, the play should go before its supervisor.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
