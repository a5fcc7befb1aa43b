"""One run of the runner under watch: its output kept within bounds, its end written down."""

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from deepline.adapters.daytona.supervision.files import WORK

HEAD_MAX = 1 << 20
TAIL_MAX = 64 << 10
LEFT_OUT = b"\n[deepline: some of it was left out]\n"
_WAKE_S = 0.2
OOM_SCORE = "600"
"""When the sandbox runs out of memory the play goes, before its supervisor and the daemon."""


class _Output:
    """The first and the last part of a stream, in a file; a full disk loses it, not the run."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._room = HEAD_MAX
        self._tail = bytearray()
        self._left_out = False

    def write(self, chunk: bytes) -> None:
        """Keep what there is room for, and of the rest the end."""
        self._append(chunk[: self._room])
        self._tail += chunk[self._room :]
        self._room = max(0, self._room - len(chunk))
        if len(self._tail) > TAIL_MAX:
            del self._tail[:-TAIL_MAX]
            self._left_out = True

    def close(self) -> None:
        """Write the end after a line that says whether something is missing."""
        self._append((LEFT_OUT if self._left_out else b"") + bytes(self._tail))
        os.close(self._file)

    def _append(self, chunk: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._file, chunk)


def watch(home: Path, request: Mapping[str, object]) -> dict[str, object]:
    """Run the runner to its end; how it ended. A negative `code` is the number of a signal."""
    arguments, variables = request["arguments"], request["environment"]
    assert isinstance(arguments, list)
    assert isinstance(variables, dict)
    work = home / WORK
    own = {"HOME": str(work), "TMPDIR": str(work / "temporary"), "LANG": "C.UTF-8"}
    (work / "temporary").mkdir(exist_ok=True)
    try:
        runner = subprocess.Popen(
            [sys.executable, "-I", "runner.pyz", *arguments],
            cwd=work,
            env={**os.environ, **own, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as failure:
        return {"code": None, "spawnError": str(failure)[:400], "endedAtMs": _now_ms()}
    with contextlib.suppress(OSError):
        Path(f"/proc/{runner.pid}/oom_score_adj").write_text(OOM_SCORE)
    _keep_output(home, runner)
    return {"code": runner.wait(), "spawnError": None, "endedAtMs": _now_ms()}


def _keep_output(home: Path, runner: "subprocess.Popen[bytes]") -> None:
    """Take what the runner says until it is gone; what outlives it may hold the pipes open."""
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for stream, name in ((runner.stdout, "stdout.log"), (runner.stderr, "stderr.log")):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            output = stack.enter_context(contextlib.closing(_Output(home / name)))
            selector.register(stream, selectors.EVENT_READ, output)
        while selector.get_map():
            gone = runner.poll() is not None
            ready = selector.select(0 if gone else _WAKE_S)
            for key, _ in ready:
                chunk = os.read(key.fd, 65_536)
                key.data.write(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
            if gone and not ready:
                return


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
