"""One role of a deployment as a process of the operating system, with its output kept in files."""

import http.client
import os
import random
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tests.cli.commands import command, environment

READY_S = 60.0
END_S = 40.0
_ASK_S = 5.0


class Process(Protocol):
    """What is needed of a process, however it was started."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float) -> int: ...

    def send_signal(self, number: signal.Signals) -> None: ...


class Spawn(Protocol):
    """Starts `deepline` with these arguments, this environment and these files for its output."""

    def __call__(
        self, arguments: Sequence[str], variables: Mapping[str, str], out: Path, err: Path
    ) -> Process: ...


def spawn_process(
    arguments: Sequence[str], variables: Mapping[str, str], out: Path, err: Path
) -> Process:
    """Start it as a user does."""
    with out.open("wb") as said, err.open("wb") as wrong:
        return subprocess.Popen(
            command(*arguments),
            env=environment(variables),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=wrong,
            cwd="/",
            start_new_session=True,  # a Ctrl-C is for the tests
        )


class RoleProcess:
    """A started process; signals reach exactly it, and what it says stays readable after it."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        variables: Mapping[str, str],
        logs: Path,
        health: str | None,
        spawn: Spawn = spawn_process,
    ) -> None:
        self.name = name
        self.variables = dict(variables)
        self.health = health
        self.outputs = [logs / f"{name}.out", logs / f"{name}.err"]
        self._process = spawn(
            arguments, {"PYTHONUNBUFFERED": "1", **variables}, self.outputs[0], self.outputs[1]
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended; a stopped one counts."""
        return self._process.poll() is None

    def said(self) -> str:
        """All that it wrote so far."""
        return "".join(path.read_text("utf-8", "replace") for path in self.outputs)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        if self.running:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash does, and bury it."""
        self.send(signal.SIGKILL)
        self._process.wait(END_S)

    def pause(self) -> None:
        """Stop it in the middle of whatever it does; returns once it stands still."""
        self.send(signal.SIGSTOP)
        deadline = time.monotonic() + _ASK_S
        while self._state() != "T":
            assert time.monotonic() < deadline, f"{self.name} does not stand still"
            time.sleep(0.005)

    def go_on(self) -> None:
        """Let a stopped one go on as if nothing had happened."""
        self.send(signal.SIGCONT)

    def wait(self) -> int:
        """Wait for its end; returns its exit code, negative for a signal."""
        return self._process.wait(END_S)

    def finish(self) -> int:
        """Ask it to stop, and wait until it has drained."""
        self.send(signal.SIGTERM)
        return self.wait()

    def wait_ready(self) -> None:
        """Wait until it says that it can work; fails when it ends instead."""
        assert self.health is not None
        deadline = time.monotonic() + READY_S
        while not answers(f"{self.health}/readyz"):
            assert self.running, f"{self.name} ended while it started: {self.said()[-2000:]}"
            assert time.monotonic() < deadline, f"{self.name} is not ready: {self.said()[-2000:]}"
            time.sleep(0.05)

    def ready(self) -> bool:
        """Whether it runs and says that it can work."""
        return self.running and self.health is not None and answers(f"{self.health}/readyz")

    def metrics(self) -> str:
        """What it exposes."""
        assert self.health is not None
        return read(f"{self.health}/metrics")

    def close(self) -> None:
        """Make an end of it, whatever state it is in."""
        if self.running:
            self.kill()

    def _state(self) -> str:
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0]


def read(url: str) -> str:
    """GET an address of this machine."""
    with urllib.request.urlopen(url, timeout=_ASK_S) as answer:
        text: str = answer.read().decode()
        return text


def answers(url: str) -> bool:
    """Whether an address answers with success."""
    try:
        read(url)
    except (OSError, http.client.HTTPException):
        return False
    return True


def free_port(taken: set[int]) -> int:
    """A port for one process after another: outside the range of outgoing connections."""
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    chance = random.Random(os.urandom(8))
    while True:
        port = chance.randrange(max(10_000, low - 20_000), low)
        if port in taken:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        taken.add(port)
        return port
