"""The light host and the process that role processes are forked from, for who tests with them.

with light_world(directory) as world:
    worker = world.spawn(["worker"], environment, out, err)
    worker.send_signal(signal.SIGKILL)
    assert world.starts()[run_id] == 1
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.commands import ROOT, environment
from tests.support.light.roles import PORT

POLL_S = 0.01


class LightProcess:
    """A forked role, with as much of `subprocess.Popen` as tests need."""

    def __init__(self, world: "LightWorld", pid: int) -> None:
        self._world = world
        self._code: int | None = None
        self.pid = pid

    def poll(self) -> int | None:
        """How it ended; `None` while it runs."""
        if self._code is None:
            self._code = self._world.command({"poll": self.pid})["status"]
        return self._code

    def wait(self, timeout: float) -> int:
        """Wait for its end; raises `TimeoutExpired`."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a light role", timeout)
            time.sleep(POLL_S)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal if it runs; it is not reaped in between, so the id is its own."""
        if self.poll() is None:
            os.kill(self.pid, number)


class LightWorld:
    """Both processes, while they run."""

    def __init__(self, forking: "subprocess.Popen[str]", port: int) -> None:
        self._forking = forking
        self._lock = threading.Lock()
        self.port = port

    def spawn(
        self, arguments: Sequence[str], variables: Mapping[str, str], out: Path, err: Path
    ) -> LightProcess:
        """Start a role."""
        started = self.command(
            {
                "start": list(arguments),
                "environment": environment({PORT: str(self.port), **variables}),
                "out": str(out),
                "err": str(err),
            }
        )
        return LightProcess(self, started["pid"])

    def command(self, document: Mapping[str, object]) -> dict[str, Any]:
        """Have the forking process do something."""
        assert self._forking.stdin is not None
        assert self._forking.stdout is not None
        with self._lock:
            self._forking.stdin.write(json.dumps(document) + "\n")
            self._forking.stdin.flush()
            answer: dict[str, Any] = json.loads(self._forking.stdout.readline())
        return answer

    def starts(self) -> Mapping[str, int]:
        """How often a runner was started, by run."""
        return self.ask("starts")

    def sandboxes(self) -> Sequence[Mapping[str, Any]]:
        """The sandboxes that are there."""
        found: Sequence[Mapping[str, Any]] = self.ask("owned")["sandboxes"]
        return found

    def ask(self, verb: str, **asked: object) -> dict[str, Any]:
        """Ask the host."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as line:
            line.sendall(json.dumps({"verb": verb, **asked}).encode() + b"\n")
            with line.makefile("rb") as answer:
                document: dict[str, Any] = json.loads(answer.readline())
        return document


@contextmanager
def light_world(directory: Path) -> Iterator[LightWorld]:
    """Both processes for the length of a block; `directory` is how leftovers of them are found."""
    variables = environment({"PYTHONPATH": str(ROOT), "LIGHT_DIRECTORY": str(directory)})
    with (
        _module("tests.support.light.host", variables) as host,
        _module("tests.support.light.roles", variables) as forking,
    ):
        assert host.stdout is not None
        yield LightWorld(forking, int(host.stdout.readline()))


@contextmanager
def _module(name: str, variables: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-m", name],
        env=dict(variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(20)
