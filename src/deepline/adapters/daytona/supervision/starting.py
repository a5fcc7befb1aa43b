"""Starting the runner at most once in the sandbox's life, detached from whoever asks."""

import contextlib
import fcntl
import os
import select
import time
from pathlib import Path

from deepline.adapters.daytona.supervision.files import (
    PROGRAM,
    REQUEST,
    WORK,
    read_record,
    write_record,
)
from deepline.adapters.daytona.supervision.watching import watch

ANSWER_S = 20.0
LOCK_S = 2.0


def start(home: Path, stage: Path) -> str:
    """Start what is staged, unless something was started before: `started` or `already`.

    The supervisor is a process of its own session with nothing of ours open, so that neither the
    end of this command nor that of the daemon which ran it reaches it.
    """
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(read)
        if os.fork() == 0:
            os.setsid()
            _supervise(home, stage, write)
        os._exit(0)
    os.close(write)
    os.wait()
    said = b""
    while select.select([read], [], [], ANSWER_S)[0]:
        chunk = os.read(read, 1_000)
        if not chunk:
            break
        said += chunk
    return said.decode(errors="replace") or "failed: the supervisor gave no answer"


def _supervise(home: Path, stage: Path, answer: int) -> None:
    """Be the supervisor; never comes back."""
    try:
        os.umask(0o077)
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nothing, standard)
        if not _take_lock(home):
            _discard(stage)
            os.write(answer, b"already")
            os._exit(0)
        request = _read_request(stage)
        _move_in(home, stage)
        write_record(home / "pid.json", {"pid": os.getpid(), "startedAtMs": _now_ms()})
        os.write(answer, b"started")
        os.close(answer)
        write_record(home / "exit.json", watch(home, request))
    except (OSError, ValueError, KeyError, TypeError) as failure:
        with contextlib.suppress(OSError):
            os.write(answer, f"failed: {type(failure).__name__}: {failure}"[:400].encode())
    os._exit(0)


def _take_lock(home: Path) -> bool:
    """Hold the lock until this process ends; False when the sandbox was started before.

    Who looks whether we live holds it for a moment, hence the patience.
    """
    lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + LOCK_S
    while not (home / "pid.json").exists() and time.monotonic() < until:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return not (home / "pid.json").exists()
    return False


def _read_request(stage: Path) -> dict[str, object]:
    request = read_record(stage / REQUEST)
    if request is None:
        raise ValueError("the start request is damaged")
    return request


def _move_in(home: Path, stage: Path) -> None:
    """The staged files become the runner's directory; the request, which holds a token, goes."""
    (stage / REQUEST).unlink()
    (stage / PROGRAM).replace(home / PROGRAM)
    stage.chmod(0o700)
    stage.rename(home / WORK)


def _discard(stage: Path) -> None:
    with contextlib.suppress(OSError):
        for file in stage.iterdir():
            file.unlink()
        stage.rmdir()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
