"""What can be said about the runner from what is on disk, without disturbing it (C32, Q30)."""

import fcntl
import os
import stat
from pathlib import Path

from deepline.adapters.daytona.supervision.files import RESULT, WORK, read_record


def look(home: Path) -> dict[str, object]:
    """The life of the runner, its exit code, and the size of the result it left.

    The lock says whether the supervisor lives, since a process id may be another's by now.
    """
    ended = read_record(home / "exit.json")
    begun = (home / "pid.json").exists()
    alive = _locked(home / "lock")
    if ended is None and not alive:
        # It may have ended between the two looks.
        ended = read_record(home / "exit.json")
    if ended is not None:
        life = "exited"
    elif alive:
        life = "running" if begun else "starting"
    else:
        life = "lost" if begun else "not_started"
    return {
        "life": life,
        "code": None if ended is None else ended.get("code"),
        "spawnError": None if ended is None else ended.get("spawnError"),
        "resultBytes": _size(home / WORK / RESULT),
    }


def _locked(path: Path) -> bool:
    """True while somebody holds the lock."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _size(path: Path) -> int | None:
    """The size of a plain file; a link, a pipe or a device is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
