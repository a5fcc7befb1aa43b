"""Starting an emulator, having things go wrong in it, and looking at what is in it.

Needs nothing of the vendor's in the process that starts it.
"""

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Self

import attrs
import cattrs

from deepline.testing.emulators.faults import FaultRule
from deepline.testing.emulators.modal.behaviour import Behaviour

ACCOUNT = ("ak-emulator", "as-emulator", "emulated")
"""Token, secret and workspace that an emulator has unless told otherwise."""
PATH_VARIABLES = ("DEEPLINE_SANDBOX_DIRECTORY",)
"""Environment variables whose values are paths inside a sandbox."""
STOP_S = 10.0


class EmulatorNotStarted(Exception):
    """The emulator's process ended before it was ready."""


@attrs.frozen(kw_only=True)
class EmulatedSandbox:
    """A sandbox in the emulator; `how` is `None` while it runs."""

    sandbox_id: str
    name: str
    workspace: str
    tags: dict[str, str]
    timeout_s: int
    how: str | None
    code: int | None


@attrs.define(eq=False)
class ModalEmulator:
    """An emulator's process. `url` is what `MODAL_SERVER_URL` is to be."""

    url: str
    control_port: int
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, directory: Path, accounts: Sequence[tuple[str, str, str]] = (ACCOUNT,)) -> Self:
        """Start one over a directory; what was in it is there again.

        Each of `accounts` is a token's id, its secret and the workspace it belongs to. Raises
        `EmulatorNotStarted`, for example when the extra `modal` is not installed.
        """
        command = [sys.executable, "-m", "deepline.testing.emulators.modal"]
        command += ["--directory", str(directory)]
        for account in accounts:
            command += ["--token", ":".join(account)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        process.stdout.close()
        if not line:
            code = process.wait()
            raise EmulatorNotStarted(
                f"the Modal emulator ended with code {code}; is the extra `modal` installed?"
            )
        ready = json.loads(line)
        return cls(url=ready["url"], control_port=ready["control"], process=process)

    def add_fault(self, rule: FaultRule) -> None:
        """Put a rule in force; `calls` are gRPC methods, such as `SandboxCreateV2`."""
        self._ask({"faults": [attrs.asdict(rule)]})

    def clear_faults(self) -> None:
        """Put every rule out of force."""
        self._ask({"clear_faults": True})

    def behave(self, behaviour: Behaviour) -> None:
        """Be as late and as forgetful as this from now on."""
        self._ask({"behaviour": attrs.asdict(behaviour)})

    def run_out_of_memory(self, sandbox_id: str) -> None:
        """End a sandbox as the kernel does when its memory is used up."""
        self._ask({"out_of_memory": sandbox_id})

    def sandboxes(self) -> Sequence[EmulatedSandbox]:
        """Every sandbox there ever was, the latest first."""
        return cattrs.structure(self._ask({})["sandboxes"], list[EmulatedSandbox])

    def running(self) -> Sequence[EmulatedSandbox]:
        """The sandboxes that run."""
        return [one for one in self.sandboxes() if one.how is None]

    def calls(self, name: str) -> int:
        """How often this call has come."""
        return self._count("calls", name)

    def cancelled(self, name: str) -> int:
        """How many of these calls their callers took back while they hung."""
        return self._count("cancelled", name)

    def stop(self) -> None:
        """End the emulator and every sandbox in it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """Crash the emulator. Its sandboxes go on, and one started over the directory has them."""
        self.process.kill()
        self.process.wait()

    def _count(self, kind: str, name: str) -> int:
        return cattrs.structure(self._ask({})[kind], dict[str, int]).get(name, 0)

    def _ask(self, question: dict[str, object]) -> dict[str, object]:
        with (
            socket.create_connection(("127.0.0.1", self.control_port), timeout=STOP_S) as caller,
            caller.makefile("rw") as lines,
        ):
            lines.write(json.dumps(question) + "\n")
            lines.flush()
            answer: dict[str, object] = json.loads(lines.readline())
            return answer


@contextlib.contextmanager
def modal_emulator(
    directory: Path, accounts: Sequence[tuple[str, str, str]] = (ACCOUNT,)
) -> Generator[ModalEmulator]:
    """An emulator for the length of a block."""
    emulator = ModalEmulator.start(directory, accounts)
    try:
        yield emulator
    finally:
        emulator.stop()
