"""Emulated sandboxes: a directory each, with real processes that a keeper looks after.

Everything is on disk, so an emulator that was killed finds its sandboxes when it starts again.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from deepline.testing.emulators.modal import keeper

ENDING_S = 5.0
LOST = ("internal_failure", 1)


class SandboxNotStarted(Exception):
    """What a sandbox was to run cannot be run."""


@attrs.frozen(kw_only=True)
class Ended:
    """How a sandbox ended: `how` in the provider's words, and its exit code."""

    how: str
    code: int


@attrs.frozen(kw_only=True)
class Sandbox:
    """What the emulator knows about a sandbox, apart from whether it still runs."""

    sandbox_id: str
    task_id: str
    workspace: str
    app_id: str
    name: str
    tags: Mapping[str, str]
    created_at: float
    timeout_s: int


@attrs.frozen(kw_only=True)
class Program:
    """What a sandbox runs; absolute paths in it are the sandbox's own."""

    arguments: Sequence[str]
    environment: Mapping[str, str] = attrs.field(repr=False)
    directory: str = "/"


class Sandboxes:
    """All sandboxes below a directory.

    There is no file system of its own per sandbox: a path of a sandbox is below its home. The
    environment variables named in `path_variables` hold such paths and are turned into real ones.
    """

    def __init__(self, directory: Path, path_variables: Sequence[str]) -> None:
        self._directory = directory
        self._path_variables = frozenset(path_variables)
        directory.mkdir(parents=True, exist_ok=True)
        self._known = {found.sandbox_id: found for found in self._read()}
        self._ended: dict[str, Ended] = {}

    def all(self) -> Sequence[Sandbox]:
        """Every sandbox there ever was, the latest first."""
        return sorted(self._known.values(), key=lambda one: -one.created_at)

    def get(self, sandbox_id: str) -> Sandbox | None:
        """The sandbox of that id."""
        return self._known.get(sandbox_id)

    def of_task(self, task_id: str) -> Sandbox | None:
        """The sandbox that runs as this task."""
        return next((one for one in self._known.values() if one.task_id == task_id), None)

    def create(self, described: Sandbox, program: Program) -> None:
        """Start a sandbox. Raises `SandboxNotStarted` when its program cannot be run."""
        directory = self._of(described.sandbox_id)
        home = directory / "home"
        home.mkdir(parents=True)
        working = self.path(described.sandbox_id, program.directory)
        working.mkdir(parents=True, exist_ok=True)
        start = {
            "arguments": list(program.arguments),
            "environment": self.environment(described.sandbox_id, program.environment),
            "directory": str(working),
            "timeout_s": described.timeout_s,
        }
        keeper.write(directory / "sandbox.json", json.dumps(attrs.asdict(described)))
        if not _started(directory, start):
            shutil.rmtree(directory)
            raise SandboxNotStarted(f"cannot run {program.arguments[0]!r}")
        self._known[described.sandbox_id] = described

    def ended(self, sandbox_id: str) -> Ended | None:
        """How the sandbox ended; `None` while it runs."""
        if sandbox_id not in self._ended:
            found = self._read_end(sandbox_id)
            if found is None:
                return None
            self._ended[sandbox_id] = found
        return self._ended[sandbox_id]

    def terminate(self, sandbox_id: str, *, delay_s: float) -> None:
        """Have the sandbox end after a delay; nothing happens when it has ended."""
        if self.ended(sandbox_id) is None:
            directory = self._of(sandbox_id)
            keeper.write(directory / "termination.json", json.dumps({"delay_s": delay_s}))
            self._tell_keeper(sandbox_id, signal.SIGTERM)

    def end_all(self) -> None:
        """Terminate every sandbox that runs, and wait until none does."""
        running = [one for one in self._known if self.ended(one) is None]
        for sandbox_id in running:
            self.terminate(sandbox_id, delay_s=0)
        until = time.monotonic() + ENDING_S
        while any(self.ended(one) is None for one in running) and time.monotonic() < until:
            time.sleep(0.01)

    def run_out_of_memory(self, sandbox_id: str) -> None:
        """End the sandbox as the kernel does when its memory is used up."""
        self._tell_keeper(sandbox_id, signal.SIGUSR1)

    def path(self, sandbox_id: str, path: str) -> Path:
        """Where a path of the sandbox really is."""
        return self._of(sandbox_id) / "home" / os.path.normpath(f"/{path}").lstrip("/")

    def output(self, sandbox_id: str, name: str) -> Path:
        """The file that holds `stdout` or `stderr` of the sandbox's own program."""
        return self._of(sandbox_id) / name

    def environment(self, sandbox_id: str, given: Mapping[str, str]) -> dict[str, str]:
        """The environment of a program in the sandbox: nothing of the emulator's own."""
        home = str(self.path(sandbox_id, "/"))
        search = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        placed = {
            name: str(self.path(sandbox_id, value)) if name in self._path_variables else value
            for name, value in given.items()
        }
        return {"PATH": search, "LANG": "C.UTF-8", "HOME": home, "TMPDIR": home, **placed}

    def _of(self, sandbox_id: str) -> Path:
        return self._directory / sandbox_id

    def _read(self) -> Sequence[Sandbox]:
        return [
            Sandbox(**json.loads(path.read_text()))
            for path in self._directory.glob("*/sandbox.json")
        ]

    def _read_end(self, sandbox_id: str) -> Ended | None:
        path = self._of(sandbox_id) / "exit.json"
        kept = _is_kept(self._of(sandbox_id))
        if path.exists():
            return Ended(**json.loads(path.read_text()))
        return None if kept else Ended(how=LOST[0], code=LOST[1])

    def _tell_keeper(self, sandbox_id: str, what: signal.Signals) -> None:
        directory = self._of(sandbox_id)
        if _is_kept(directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int((directory / "keeper.pid").read_text()), what)


def described(
    *,
    workspace: str,
    app_id: str,
    name: str,
    tags: Mapping[str, str],
    time_s: int,
) -> Sandbox:
    """A sandbox that does not exist yet, with ids as the provider gives them now."""
    return Sandbox(
        # Not 22 characters long: such ids are of an older kind of sandbox.
        sandbox_id=f"sb-{uuid.uuid4().hex[:26]}",
        task_id=f"ta-{uuid.uuid4().hex[:20]}V",
        workspace=workspace,
        app_id=app_id,
        name=name,
        tags=dict(tags),
        created_at=time.time(),
        timeout_s=time_s,
    )


def _started(directory: Path, start: Mapping[str, object]) -> bool:
    with (directory / "keeper.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", keeper.__file__, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        process.stdin.write(json.dumps(start).encode())
        process.stdin.close()
        # It closes its output once the program runs; one that failed has left no number.
        process.stdout.read()
    return (directory / "keeper.pid").exists()


def _is_kept(directory: Path) -> bool:
    """True while the keeper of this directory lives."""
    try:
        handle = os.open(directory / "keeper.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
