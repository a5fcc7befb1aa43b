"""Running the runner's real program against a scripted gateway."""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from deepline.adapters.runner_bundle import build_pyz, bundle_play
from tests.runner.scripted_gateway import ScriptedGateway

PATIENCE_S = 30.0


@dataclasses.dataclass
class Running:
    """A runner under way or ended, and what it left."""

    process: subprocess.Popen[str]
    directory: Path
    gateway: ScriptedGateway
    output: str = ""

    def finish(self) -> int:
        """Wait for its end; returns the exit code."""
        self.output, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode

    @property
    def terminal(self) -> dict[str, Any]:
        """The one terminal that was pushed."""
        (terminal,) = self.gateway.terminals
        return terminal

    @property
    def left_behind(self) -> dict[str, Any]:
        """What is in the result file."""
        found: dict[str, Any] = json.loads((self.directory / "result.json").read_text())
        return found


class Stage:
    """Where a test's runs take place."""

    def __init__(self, directory: Path, gateway: ScriptedGateway) -> None:
        self.directory = directory
        self.gateway = gateway
        self._running: list[Running] = []

    def prepare(self, code: str, **launch: Any) -> None:
        """Give the gateway a launch of a play that is this code."""
        play = self.directory / "source" / "shown.py"
        play.parent.mkdir(exist_ok=True)
        play.write_text(textwrap.dedent(code))
        bundle = bundle_play(play)
        self.gateway.bundle = bundle.content
        self.gateway.launch = {
            "runId": "run-1",
            "attempt": 1,
            "orgId": "acme",
            "playName": bundle.play_name,
            "entry": bundle.entry,
            "graphHash": "g",
            "bundleHash": bundle.sha256,
            "input": None,
            "secrets": {},
            "heartbeatMs": 100,
            "leaseMs": 1000,
            "ceilingMs": 60_000,
            "checkpoint": None,
            **launch,
        }

    def prepare_bundle(self, content: bytes, **launch: Any) -> None:
        """Give the gateway a launch of these bytes."""
        self.prepare("def play(ctx, input): return 1")
        self.gateway.bundle = content
        self.gateway.launch |= {"bundleHash": hashlib.sha256(content).hexdigest(), **launch}

    def start(self, *, environment: dict[str, str] | None = None) -> Running:
        """Start a runner in a fresh directory."""
        directory = self.directory / f"work-{len(self._running)}"
        directory.mkdir()
        (directory / "runner.pyz").write_bytes(build_pyz())
        process = subprocess.Popen(
            [sys.executable, "-I", "runner.pyz"],
            cwd=directory,
            env=self.environment() if environment is None else environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        running = Running(process, directory, self.gateway)
        self._running.append(running)
        return running

    def environment(self) -> dict[str, str]:
        """What a runner is told."""
        return {
            "PATH": os.environ["PATH"],
            "DEEPLINE_API_URL": self.gateway.url,
            "DEEPLINE_EXECUTOR_TOKEN": self.gateway.tokens[0],
            "DEEPLINE_RUN_ID": "run-1",
            "DEEPLINE_ATTEMPT": "1",
        }

    def run(self, code: str, **launch: Any) -> Running:
        """Run a play to its end."""
        self.prepare(code, **launch)
        running = self.start()
        running.finish()
        return running

    def clear(self) -> None:
        """Leave nothing running."""
        for running in self._running:
            if running.process.poll() is None:
                running.process.kill()
                running.process.communicate()
            assert running.process.stdout is not None
            running.process.stdout.close()


@contextlib.contextmanager
def open_stage(directory: Path, gateway: ScriptedGateway) -> Iterator[Stage]:
    """A stage that is cleared in the end."""
    stage = Stage(directory, gateway)
    try:
        yield stage
    finally:
        stage.clear()


def zipped(files: dict[str, str]) -> bytes:
    """An archive of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def until(condition: Callable[[], object]) -> None:
    """Wait for something outside; fails when it does not come."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)
