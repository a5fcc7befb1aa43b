"""The Modal emulator from the outside: started, told what to do, asked what is in it.

Needs nothing of the vendor's in the process that starts it.
"""

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path

import attrs
import cattrs

from deepline.testing.emulators.faults import FaultRule
from deepline.testing.emulators.modal.temper import Temper
from deepline.testing.emulators.process import emulator_process

ACCOUNT = ("ak-emulator", "as-emulator", "emulated")
"""Token, secret and workspace that an emulator has unless told otherwise."""
PATH_VARIABLES = ("DEEPLINE_SANDBOX_DIRECTORY",)
"""Environment variables whose values are paths inside a sandbox."""
CONTROL = "control"
"""The file in the state directory that says on which port an emulator is told what to do."""
MODULE = "deepline.testing.emulators.modal"
PATIENCE_S = 10.0


class EmulatorNotStarted(Exception):
    """The emulator's process ended before it was ready."""


@attrs.frozen(kw_only=True)
class EmulatedSandbox:
    """A sandbox in the emulator; `how` it ended is `None` while it runs."""

    sandbox_id: str
    name: str
    workspace: str
    tags: dict[str, str]
    timeout_s: int
    how: str | None
    code: int | None


@attrs.frozen
class ModalEmulator:
    """A running emulator. Its methods block for a moment; no fault touches them.

    `url` is what `MODAL_SERVER_URL` must be; `state` is the directory that holds everything.
    """

    url: str
    state: Path

    def fault(self, rule: FaultRule) -> None:
        """Put a fault in force; `calls` are gRPC methods, such as `SandboxCreateV2`."""
        self._ask({"faults": [attrs.asdict(rule)]})

    def faults_left(self) -> int:
        """How many times the faults in force are yet to happen."""
        return cattrs.structure(self._ask({})["faults_left"], int)

    def faults_hit(self) -> Sequence[int]:
        """How many times each fault in force has happened, in the order they were asked for."""
        return cattrs.structure(self._ask({})["faults_hit"], list[int])

    def clear_faults(self) -> None:
        """Put every fault out of force."""
        self._ask({"clear_faults": True})

    def behave(self, **changes: float) -> None:
        """Change fields of `Temper`."""
        known = {field.name for field in attrs.fields(Temper)}
        assert changes.keys() <= known, f"no such temper: {sorted(changes.keys() - known)}"
        self._ask({"temper": changes})

    def run_out_of_memory(self, sandbox_id: str) -> None:
        """End a sandbox as the kernel does when its memory is used up."""
        self._ask({"out_of_memory": sandbox_id})

    def end_all(self) -> None:
        """Terminate every sandbox that runs, and wait until none does."""
        self._ask({"end_all": True})

    def sandboxes(self, *, alive: bool = True) -> Sequence[EmulatedSandbox]:
        """The sandboxes of all workspaces, the latest first; the ended ones unless `alive`."""
        found = cattrs.structure(self._ask({})["sandboxes"], list[EmulatedSandbox])
        return [one for one in found if not alive or one.how is None]

    def calls(self, name: str) -> int:
        """How often this call has come."""
        return self._count("calls", name)

    def cancelled(self, name: str) -> int:
        """How many of these calls their callers took back while they hung."""
        return self._count("cancelled", name)

    def _count(self, kind: str, name: str) -> int:
        return cattrs.structure(self._ask({})[kind], dict[str, int]).get(name, 0)

    def _ask(self, question: dict[str, object]) -> dict[str, object]:
        port = int((self.state / CONTROL).read_text())
        with (
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as caller,
            caller.makefile("rw") as lines,
        ):
            lines.write(json.dumps(question) + "\n")
            lines.flush()
            answer: dict[str, object] = json.loads(lines.readline())
            return answer


def started_modal(
    state: Path, accounts: Sequence[tuple[str, str, str]] = (ACCOUNT,), *, port: int = 0
) -> "tuple[ModalEmulator, subprocess.Popen[str]]":
    """Start an emulator over a state directory; the process is the caller's to end or to kill.

    Each of `accounts` is a token's id, its secret and the workspace it belongs to. Raises
    `EmulatorNotStarted`, for example when the extra `modal` is not installed.
    """
    command = [sys.executable, "-m", MODULE, f"--state={state}", f"--port={port}"]
    command += _tokens(accounts)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as said:
        url = said.readline().strip()
    if not url:
        code = process.wait()
        raise EmulatorNotStarted(
            f"the Modal emulator ended with code {code}; is the extra `modal` installed?"
        )
    return ModalEmulator(url, state), process


@contextlib.contextmanager
def modal_emulator(
    state: Path, accounts: Sequence[tuple[str, str, str]] = (ACCOUNT,), *, port: int = 0
) -> Generator[ModalEmulator]:
    """An emulator for the length of a block, without Trio; what runs in it ends with it."""
    emulator, process = started_modal(state, accounts, port=port)
    try:
        yield emulator
    finally:
        if process.poll() is None:
            emulator.end_all()
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.asynccontextmanager
async def running_modal(
    state: Path, *, port: int = 0, accounts: Sequence[tuple[str, str, str]] = (ACCOUNT,)
) -> AsyncGenerator[ModalEmulator]:
    """Run the emulator over a state directory.

    Leaving ends the emulator. Its sandboxes run on; the next emulator over the same state has them.
    """
    async with emulator_process(MODULE, state, port, _tokens(accounts)) as url:
        yield ModalEmulator(url, state)


def _tokens(accounts: Sequence[tuple[str, str, str]]) -> Sequence[str]:
    return [f"--token={':'.join(account)}" for account in accounts]
