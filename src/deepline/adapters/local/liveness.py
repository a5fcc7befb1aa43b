"""Whether a local sandbox's supervisor lives, and how to reach exactly it (C51, F12).

The lock is the truth. A process id only aims a signal, and only when boot and start time agree:
an id may belong to somebody else by now, and a dead supervisor that nobody reaped still has one.
"""

import contextlib
import enum
import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import attrs

from deepline.adapters.local.layout import Home, read_record

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Life(enum.Enum):
    """How far the one start of a sandbox has come."""

    NOT_STARTED = "not_started"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"


@attrs.frozen(kw_only=True)
class Supervisor:
    """The process that `pid.json` names."""

    pid: int
    started: int
    boot: str
    isolation: str


@attrs.frozen(kw_only=True)
class Exit:
    """What `exit.json` says; `code` is negative for a signal, `None` when nothing was started."""

    code: int | None = None
    spawn_error: str | None = None
    limit: str | None = None


@attrs.frozen(kw_only=True)
class State:
    """What the files of a sandbox say together."""

    life: Life
    supervisor: Supervisor | None
    exit: Exit | None


def read_state(home: Home) -> State:
    """Read how far the sandbox is. Raises `OSError` when its files cannot be read.

    The order matters, since the supervisor goes on meanwhile: it takes the lock, writes its id,
    writes the exit, lets the lock go.
    """
    supervisor = _supervisor(read_record(home.run / "pid.json"))
    locked = is_locked(home)
    ended = _exit(read_record(home.run / "exit.json"))
    if ended is not None:
        life = Life.EXITED
    elif locked:
        life = Life.STARTING if supervisor is None else Life.RUNNING
    else:
        life = Life.NOT_STARTED if supervisor is None else Life.LOST
    return State(life=life, supervisor=supervisor, exit=ended)


def is_locked(home: Home) -> bool:
    """True while a supervisor lives. Two who ask at once do not see each other."""
    try:
        lock = os.open(home.run / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


@contextlib.contextmanager
def kept_from_starting(home: Home) -> Iterator[bool]:
    """Hold the supervisor's lock ourselves; yields False when one lives."""
    lock = os.open(home.run / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)


def handle_of(supervisor: Supervisor) -> int | None:
    """A pidfd of exactly this process, to be closed by the caller; `None` when it is no more."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        if BOOT_ID.read_text().strip() != supervisor.boot:
            return None
        handle = os.pidfd_open(supervisor.pid)
        with contextlib.suppress(OSError, ValueError, IndexError):
            stat = Path(f"/proc/{supervisor.pid}/stat").read_text().rpartition(")")[2].split()
            if int(stat[19]) == supervisor.started:
                return handle
        os.close(handle)
    return None


def kill_marked(mark: str) -> int:
    """Kill every process that carries the sandbox's mark in its environment; returns how many.

    For what a killed supervisor left behind in plain mode. Sees this account's processes only.
    """
    wanted = f"DEEPLINE_SANDBOX={mark}".encode()
    killed = 0
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != os.getpid():
            with contextlib.suppress(OSError):
                handle = os.pidfd_open(int(directory.name))
                try:
                    if wanted in (directory / "environ").read_bytes().split(b"\0"):
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                        killed += 1
                finally:
                    os.close(handle)
    return killed


def _supervisor(record: object) -> Supervisor | None:
    match record:
        case {"pid": int(pid), "started": int(started), "boot": str(boot), "isolation": str(level)}:
            return Supervisor(pid=pid, started=started, boot=boot, isolation=level)
        case _:
            return None


def _exit(record: object) -> Exit | None:
    match record:
        case {"code": int() | None as code, "spawnError": error, "limit": limit}:
            return Exit(code=code, spawn_error=_text(error), limit=_text(limit))
        case None:
            return None
        case _:
            return Exit()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
