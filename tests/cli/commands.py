"""Runs `deepline` as a user does: a process with an environment of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
_KEPT = ("PATH", "LANG", "LD_LIBRARY_PATH", "TMPDIR", "COVERAGE_PROCESS_START")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Nothing of ours from the surroundings, so that a test means the same everywhere."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | {"HOME": "/nonexistent"} | dict(extra or {})


def command(*arguments: str) -> list[str]:
    """The command line that runs our command with this interpreter."""
    return [sys.executable, "-m", "deepline.cli", *arguments]


def deepline(
    *arguments: str, extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command(*arguments),
        env=environment(extra),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def lines(text: str) -> Sequence[str]:
    """The lines of an output that hold something."""
    return [line for line in text.splitlines() if line.strip()]
