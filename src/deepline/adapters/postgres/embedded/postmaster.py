"""Reads from postmaster.pid whether a server runs on some data, and whether it is ready.

The file outlives a server that was killed or a machine that was switched off, and its process
number may belong to anybody by then. So a number is believed only when the process works in the
data directory, as every process of a server does; where the system can't tell (no /proc),
Postgres' own check has to do.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import attrs

_PROC = Path("/proc")
_PID_LINE, _PORT_LINE, _SOCKET_LINE, _STATUS_LINE = 0, 3, 4, 7


@attrs.frozen
class Postmaster:
    """A running server: its process, where it listens, and whether it takes connections."""

    pid: int
    port: int | None
    sockets: Path | None
    ready: bool


def pid_file(data: Path) -> Path:
    """Where the server of this cluster says that it runs."""
    return data / "postmaster.pid"


def running_postmaster(data: Path) -> Postmaster | None:
    """The server that runs on this data, or None; a stale file is None as well."""
    try:
        lines = pid_file(data).read_text().splitlines()
        pid = int(lines[_PID_LINE])
    except (FileNotFoundError, IndexError, ValueError):
        return None
    if not _is_alive(pid) or not _works_in(pid, data):
        return None

    def line(number: int) -> str:
        return lines[number].strip() if len(lines) > number else ""

    return Postmaster(
        pid=pid,
        port=int(line(_PORT_LINE)) if line(_PORT_LINE).isdigit() else None,
        sockets=Path(line(_SOCKET_LINE)) if line(_SOCKET_LINE) else None,
        ready=line(_STATUS_LINE) in {"ready", "standby"},
    )


def processes_on(data: Path) -> frozenset[int]:
    """Every process that still works on this data; empty where the system can't tell."""
    return frozenset(pid for pid in _all_processes() if _working_directory(pid) == data.resolve())


def can_tell() -> bool:
    """Whether this system shows us which directory a process works in."""
    return (_PROC / "self" / "cwd").exists()


def _all_processes() -> Iterator[int]:
    if can_tell():
        yield from (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _works_in(pid: int, data: Path) -> bool:
    return not can_tell() or _working_directory(pid) == data.resolve()


def _working_directory(pid: int) -> Path | None:
    try:
        return (_PROC / str(pid) / "cwd").readlink()
    except OSError:  # it ended meanwhile, is a zombie, or belongs to somebody else
        return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # somebody else's process: the number was used again
    return True
