"""The Daytona emulator from the outside: started, told what to do, asked what it saw."""

import contextlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import attrs
import cattrs

from deepline.testing.emulators.daytona.model import SandboxRecord, State, Temper
from deepline.testing.emulators.faults import FaultRule
from deepline.testing.emulators.marked_processes import kill_marked, marked
from deepline.testing.emulators.process import emulator_process

KEY = "emulated-key"
ORGANISATION = "emulated-organisation"
_PATIENCE_S = 30.0


@attrs.frozen
class DaytonaEmulator:
    """A running emulator. Its methods block for a moment; no fault touches them."""

    url: str

    @property
    def api_url(self) -> str:
        """What `DAYTONA_API_URL` must be."""
        return f"{self.url}/api"

    def fault(self, rule: FaultRule) -> None:
        """Put a fault in force."""
        self._control("POST", "faults", attrs.asdict(rule))

    def faults_left(self) -> int:
        """How many times the faults in force are yet to happen."""
        return cast("int", self._control("GET", "faults"))

    def faults_hit(self) -> Sequence[int]:
        """How many times each fault in force has happened, in the order they were asked for."""
        return cast("list[int]", self._control("GET", "faults/hits"))

    def clear_faults(self) -> None:
        """Put every fault out of force."""
        self._control("DELETE", "faults")

    def behave(self, **changes: float) -> None:
        """Change fields of `Temper`."""
        known = {field.name for field in attrs.fields(Temper)}
        assert changes.keys() <= known, f"no such temper: {sorted(changes.keys() - known)}"
        self._control("POST", "temper", changes)

    def calls(self) -> Sequence[str]:
        """Every call so far, such as `GET /api/sandbox`, the oldest first."""
        return cast("list[str]", self._control("GET", "calls"))

    def sandboxes(self, *, alive: bool = True) -> Sequence[SandboxRecord]:
        """The sandboxes of all organisations; those that are gone too unless `alive` is set."""
        found = cattrs.structure(self._control("GET", "sandboxes"), list[SandboxRecord])
        return [one for one in found if not alive or one.state is not State.DESTROYED]

    def home(self, sandbox_id: str) -> Path:
        """The directory that the sandbox's processes see as theirs."""
        return Path(cast("str", self._control("GET", f"sandboxes/{sandbox_id}/home")))

    def processes(self, sandbox_id: str) -> int:
        """How many processes run in the sandbox."""
        return sum(1 for _ in marked(sandbox_id))

    def kill(self, sandbox_id: str) -> None:
        """Kill all that runs in the sandbox; its daemon, which is the emulator, lives on."""
        kill_marked(sandbox_id)

    def lose_sessions(self, sandbox_id: str) -> None:
        """Make the sandbox's daemon forget its sessions, as when it was restarted."""
        self._control("POST", f"sandboxes/{sandbox_id}/lose-sessions")

    def run_out_of_memory(self, sandbox_id: str) -> None:
        """Kill all that runs in the sandbox and its daemon; its state does not tell for a while."""
        self._control("POST", f"sandboxes/{sandbox_id}/out-of-memory")

    def force(self, sandbox_id: str, state: State, reason: str | None = None) -> None:
        """Put the sandbox into a state."""
        self._control("POST", f"sandboxes/{sandbox_id}/state", {"state": state, "reason": reason})

    def _control(self, method: str, what: str, body: Mapping[str, object] | None = None) -> object:
        address = urlsplit(self.url)
        with contextlib.closing(
            HTTPConnection(address.hostname or "", address.port, timeout=_PATIENCE_S)
        ) as connection:
            connection.request(method, f"/emulator/{what}", json.dumps(body or {}))
            response = connection.getresponse()
            said = response.read()
        assert response.status == 200, f"the emulator said {response.status}: {said!r}"
        return json.loads(said)


@contextlib.asynccontextmanager
async def running_daytona(
    state: Path,
    *,
    port: int = 0,
    keys: Mapping[str, str] | None = None,
    temper: Temper | None = None,
) -> AsyncGenerator[DaytonaEmulator]:
    """Run the emulator over a state directory; `keys` are API keys and their organisations.

    Leaving ends the emulator. Its sandboxes stay on disk and their processes run on, unless they
    are deleted first; the next emulator over the same state finds them.
    """
    arguments = [f"--key={key}={owner}" for key, owner in (keys or {KEY: ORGANISATION}).items()]
    for name, value in attrs.asdict(temper or Temper()).items():
        arguments.append(f"--{name.replace('_', '-')}={value}")
    module = "deepline.testing.emulators.daytona"
    async with emulator_process(module, state, port, arguments) as url:
        yield DaytonaEmulator(url)
