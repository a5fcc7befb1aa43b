"""Shell sessions and commands in the emulated sandboxes, with the traps of the real ones.

A session is a shell that *sources* each command: a command that exits ends the shell, and its exit
code never appears. Sessions live in this process's memory, as they live in that of the sandbox's
daemon, so a new process knows of none.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

import attrs

from deepline.core.model.json_value import Json
from deepline.testing.emulators.daytona.model import Problem, SandboxRecord
from deepline.testing.emulators.marked_processes import VARIABLE

DAEMON = "DAYTONA_DAEMON"
_PATIENCE_S = 60.0
_EXECUTE_S = 360.0
_SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"


@attrs.frozen(eq=False)
class _Command:
    id: str
    text: str
    directory: Path

    def shown(self) -> dict[str, Json]:
        said = self.read("exit").strip()
        exit_code = {"exitCode": int(said)} if said else {}
        return {"id": self.id, "command": self.text, **exit_code}

    def read(self, name: str) -> str:
        path = self.directory / name
        return path.read_text(errors="replace") if path.exists() else ""


@attrs.frozen(eq=False)
class _Session:
    shell: subprocess.Popen[bytes]
    directory: Path
    commands: dict[str, _Command] = attrs.field(factory=dict[str, _Command])

    def end(self) -> None:
        """Kill the shell and what is in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.wait()
        if self.shell.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.shell.stdin.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class Sessions:
    """All sessions of all sandboxes. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sessions: dict[tuple[str, str], _Session] = {}

    def forget(self, sandbox_id: str) -> None:
        """Lose the sandbox's sessions, as when its daemon dies."""
        with self._lock:
            for key in [key for key in self._sessions if key[0] == sandbox_id]:
                self._sessions.pop(key).end()

    def create(self, sandbox: SandboxRecord, home: Path, session_id: str) -> None:
        """Start a shell. Its name must be free."""
        with self._lock:
            if (sandbox.id, session_id) in self._sessions:
                raise Problem(409, "session already exists", DAEMON)
            shell = subprocess.Popen(
                ["/bin/sh"],
                cwd=home,
                env=environment(sandbox, home),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            directory = Path(tempfile.mkdtemp(prefix="deepline-session-"))
            self._sessions[sandbox.id, session_id] = _Session(shell, directory)

    def delete(self, sandbox: SandboxRecord, session_id: str) -> None:
        """End a session and all that it started in its group."""
        with self._lock:
            self._get(sandbox, session_id)
            self._sessions.pop((sandbox.id, session_id)).end()

    def shown(self, sandbox: SandboxRecord, session_id: str) -> dict[str, Json]:
        """A session as the API shows it."""
        session = self._get(sandbox, session_id)
        commands: list[Json] = [command.shown() for command in session.commands.values()]
        return {"sessionId": session_id, "commands": commands}

    def listed(self, sandbox: SandboxRecord) -> list[Json]:
        """All sessions of a sandbox."""
        with self._lock:
            names = [name for owner, name in self._sessions if owner == sandbox.id]
        return [self.shown(sandbox, name) for name in names]

    def execute(
        self, sandbox: SandboxRecord, session_id: str, text: str, *, detached: bool
    ) -> dict[str, Json]:
        """Give the shell a command to source; wait for it unless it is `detached`."""
        session = self._get(sandbox, session_id)
        command = _Command(str(uuid.uuid4()), text, session.directory / str(uuid.uuid4()))
        command.directory.mkdir()
        (command.directory / "command.sh").write_text(text)
        session.commands[command.id] = command
        place = command.directory
        line = f"{{ . {place}/command.sh; }} </dev/null >{place}/out 2>{place}/err"
        line += f"; echo $? >>{place}/exit\n"
        self._write(session, line)
        if detached:
            return {"cmdId": command.id}
        self._wait(command)
        return {
            "cmdId": command.id,
            "exitCode": command.shown().get("exitCode"),
            "output": command.read("out") + command.read("err"),
            "stdout": command.read("out"),
            "stderr": command.read("err"),
        }

    def command(self, sandbox: SandboxRecord, session_id: str, command_id: str) -> dict[str, Json]:
        """A command of a session as the API shows it."""
        return self._command(sandbox, session_id, command_id).shown()

    def logs(self, sandbox: SandboxRecord, session_id: str, command_id: str) -> dict[str, Json]:
        """What a command of a session has said so far."""
        command = self._command(sandbox, session_id, command_id)
        out, err = command.read("out"), command.read("err")
        return {"output": out + err, "stdout": out, "stderr": err}

    def _get(self, sandbox: SandboxRecord, session_id: str) -> _Session:
        with self._lock:
            session = self._sessions.get((sandbox.id, session_id))
        if session is None:
            raise Problem(404, "session not found", DAEMON)
        return session

    def _command(self, sandbox: SandboxRecord, session_id: str, command_id: str) -> _Command:
        command = self._get(sandbox, session_id).commands.get(command_id)
        if command is None:
            raise Problem(404, "command not found", DAEMON)
        return command

    def _write(self, session: _Session, line: str) -> None:
        assert session.shell.stdin is not None
        try:
            session.shell.stdin.write(line.encode())
            session.shell.stdin.flush()
        except (BrokenPipeError, ValueError) as broken:
            raise Problem(400, "failed to write command: broken pipe", DAEMON) from broken

    def _wait(self, command: _Command) -> None:
        until = time.monotonic() + _PATIENCE_S
        while not command.read("exit").strip():
            if time.monotonic() > until:
                raise Problem(504, "the command did not end in time", "DAYTONA_PROXY")
            time.sleep(0.01)


def execute_once(
    sandbox: SandboxRecord,
    home: Path,
    text: str,
    *,
    directory: str | None,
    extra: Mapping[str, str],
    patience_s: float | None,
) -> dict[str, Json]:
    """Run one command in a shell of its own and wait for it, and for its output to be closed."""
    with subprocess.Popen(
        ["/bin/sh"],
        cwd=directory or home,
        env={**environment(sandbox, home), **extra},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as shell:
        try:
            said, _ = shell.communicate(text.encode(), patience_s or _EXECUTE_S)
        except subprocess.TimeoutExpired as late:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.communicate()
            raise Problem(
                408, "command execution timeout", DAEMON, "PROCESS_EXECUTION_TIMEOUT"
            ) from late
    return {"exitCode": shell.returncode, "result": said.decode(errors="replace")}


def environment(sandbox: SandboxRecord, home: Path) -> dict[str, str]:
    """What a process of the sandbox finds in its environment: nothing of ours but a mark."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), _SEARCH_PATH]),
        "LANG": "C.UTF-8",
        "HOME": str(home),
        VARIABLE: sandbox.id,
        **sandbox.env,
    }
