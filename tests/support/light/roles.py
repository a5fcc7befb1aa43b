"""Role processes whose sandboxes are light, forked from one that has imported everything.

    python -m tests.support.light.roles

reads commands as lines of JSON and answers each with one:

    {"start": ["worker"], "environment": {...}, "out": PATH, "err": PATH}   -> {"pid": 7}
    {"poll": 7}                                                            -> {"status": null}

A started process is what `deepline worker` is, except for its provider of sandboxes, which is
found through `LIGHT_HOST_PORT`; with `LIGHT_TROUBLE` it also has vendors' providers, in haste. It
takes a twentieth of the time to start. What still runs when the input ends is killed.
"""

import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import NoReturn

PORT = "LIGHT_HOST_PORT"
LINGERS = "LIGHT_SANDBOXES_LINGER"
TROUBLE = "LIGHT_TROUBLE"
LOADED = (
    "deepline.cli.app",
    "deepline.cli.commands.controller",
    "deepline.cli.commands.gateway",
    "deepline.cli.commands.worker",
    "tests.support.light.provider",
)


def be(arguments: list[str]) -> int:
    """Be the role, in this process."""
    from deepline.cli import main, providers  # noqa: PLC0415 - loaded before the fork
    from deepline.ports.sandbox_provider import SandboxProvider  # noqa: PLC0415 - the same
    from tests.support.light.provider import LightProvider  # noqa: PLC0415 - the same

    port = os.environ.get(PORT)
    if port is not None:
        light = LightProvider(int(port), lingers=LINGERS in os.environ)
        local: SandboxProvider = light
        if TROUBLE in os.environ:
            from tests.support.light.haste import hurry  # noqa: PLC0415 - loads vendors' clients

            local = hurry(int(port), light)
        vars(providers)["LocalProvider"] = lambda **_: local
    sys.argv = ["deepline", *arguments]
    return main()


def begin(command: dict[str, object]) -> int:
    """Fork a process that is the role; returns its id."""
    pid = os.fork()
    if pid == 0:
        _live(command)
    return pid


def _live(command: dict[str, object]) -> NoReturn:
    code = 70
    try:
        os.setsid()
        environment, arguments = command["environment"], command["start"]
        assert isinstance(environment, dict)
        assert isinstance(arguments, list)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir("/")
        for number, path in ((0, os.devnull), (1, command["out"]), (2, command["err"])):
            flags = os.O_RDWR | os.O_CREAT
            opened = os.open(str(path), flags, 0o600)
            os.dup2(opened, number)
            os.close(opened)
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - for its whole life
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        code = be(arguments)
    except Exception:  # noqa: BLE001 - the last frame of a process says what it knows
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Children:
    """The processes begun here, and how those that are over ended, as `subprocess` says it."""

    def __init__(self) -> None:
        self._running: set[int] = set()
        self._codes: dict[int, int] = {}

    def begin(self, command: dict[str, object]) -> int:
        """Begin one more; returns its id."""
        pid = begin(command)
        self._running.add(pid)
        self._codes.pop(pid, None)  # ids come again
        return pid

    def ended(self, pid: int) -> int | None:
        """How one ended; `None` while it runs."""
        if pid in self._running:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found != 0:
                self._running.remove(pid)
                self._codes[pid] = os.waitstatus_to_exitcode(status)
        return self._codes.get(pid)

    def kill(self) -> None:
        """End all that run."""
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)


def main() -> None:
    """Answer until the input ends."""
    for module in LOADED:
        importlib.import_module(module)
    children = Children()
    for line in sys.stdin:
        command = json.loads(line)
        if "start" in command:
            answer: dict[str, int | None] = {"pid": children.begin(command)}
        else:
            answer = {"status": children.ended(command["poll"])}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    children.kill()


if __name__ == "__main__":
    main()
