"""`deepline up` and other roles as real processes, watched from outside."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs

from tests.cli.commands import command, environment

START_S = 60
END_S = 60
UNPRIVILEGED = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")


@attrs.define
class Running:
    """One process of ours, and what it prints."""

    process: "subprocess.Popen[str]"
    home: Path

    def line(self) -> str:
        """The next line of its output; fails when none comes in time."""
        output = self.process.stdout
        assert output is not None
        ready, _, _ = select.select([output], [], [], START_S)
        assert ready, "nothing was printed in time"
        return output.readline()

    def signal(self, *numbers: signal.Signals) -> None:
        """Send signals, one after another."""
        for number in numbers:
            self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Wait for its end; returns the exit code and what it wrote to stderr."""
        _, errors = self.process.communicate(timeout=END_S)
        return self.process.returncode, errors


@contextmanager
def running(
    *arguments: str,
    home: Path,
    before: Sequence[str] = (),
    extra: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """A role for the length of a block; whatever is left of it afterwards is killed."""
    process = subprocess.Popen(
        [*before, *command(*arguments)],
        env=environment({"DEEPLINE_HOME": str(home), "PYTHONUNBUFFERED": "1"} | dict(extra or {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
    )
    try:
        yield Running(process, home)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
        for pid in processes_of(home):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def processes_of(home: Path) -> Sequence[int]:
    """Every process that has this directory in its command line or works in it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
                place = (entry / "cwd").readlink()
            except OSError:
                continue
            if os.fsencode(home) in line or place.is_relative_to(home):
                found.append(int(entry.name))
    return found


def nothing_left(home: Path) -> bool:
    """Whether no process of this directory is there; dead ones may take a moment to go."""
    for _ in range(50):
        if not processes_of(home):
            return True
        time.sleep(0.1)
    return False
