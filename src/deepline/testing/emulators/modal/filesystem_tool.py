"""The program that the vendor's client runs in a sandbox to read and write files there."""

import json
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

PROGRAM = "/__modal/.bin/modal-sandbox-fs-tools"
READ_BYTES_MAX = 5 << 30


class ToolFailed(Exception):
    """The tool's own kind of failure, which it prints for the client."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.printed = json.dumps({"error_kind": kind, "message": message}).encode()


def perform(command: str, given: bytes, place: Callable[[str], Path]) -> bytes:
    """Do what a command says with what was piped in; what it prints. Raises `ToolFailed`."""
    ((operation, options),) = json.loads(command).items()
    act = _OPERATIONS.get(operation)
    if act is None:
        raise ToolFailed("Other", f"the emulator does not have {operation}")
    try:
        return act(place(str(options["path"])), options, given)
    except FileNotFoundError as failure:
        raise ToolFailed("NotFound", "No such file or directory") from failure
    except IsADirectoryError as failure:
        raise ToolFailed("IsDirectory", "Is a directory") from failure
    except NotADirectoryError as failure:
        raise ToolFailed("NotDirectory", "Not a directory") from failure
    except FileExistsError as failure:
        raise ToolFailed("AlreadyExists", "File exists") from failure


def wants_input(command: str) -> bool:
    """True for a command that waits for its standard input to end."""
    return "WriteFile" in json.loads(command)


def _read(path: Path, _options: Mapping[str, object], _given: bytes) -> bytes:
    return path.read_bytes()


def _stat(path: Path, options: Mapping[str, object], _given: bytes) -> bytes:
    found = path.lstat()
    kinds = {stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
    said = {
        "name": path.name,
        "path": str(options["path"]),
        "type": kinds.get(stat.S_IFMT(found.st_mode), "file"),
        "size": found.st_size,
        "mode": stat.S_IMODE(found.st_mode),
        "permissions": stat.filemode(found.st_mode),
        "owner": "root",
        "group": "root",
        "modified_time": found.st_mtime,
    }
    return json.dumps(said).encode()


def _write(path: Path, _options: Mapping[str, object], given: bytes) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(given)
    return b""


def _remove(path: Path, options: Mapping[str, object], _given: bytes) -> bytes:
    if path.is_dir() and options.get("recursive"):
        shutil.rmtree(path)
    elif path.is_dir():
        path.rmdir()
    else:
        path.unlink()
    return b""


def _make_directory(path: Path, options: Mapping[str, object], _given: bytes) -> bytes:
    parents = bool(options.get("parents"))
    path.mkdir(parents=parents, exist_ok=parents)
    return b""


_OPERATIONS = {
    "ReadFile": _read,
    "WriteFile": _write,
    "Stat": _stat,
    "Remove": _remove,
    "MakeDirectory": _make_directory,
}
