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

OUTPUT_MAX = 1 << 20
LEFT_OUT = b"\n[deepline: what follows was left out]\n"
_WAKE_S = 0.2
OOM_SCORE = "600"
"""When the sandbox runs out of memory the play goes, before its supervisor and the daemon."""


class _Output:
    """The first part of a stream, in a file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._room = OUTPUT_MAX

    def write(self, chunk: bytes) -> None:
        """Keep what there is room for. A full disk loses output, never the run."""
        with contextlib.suppress(OSError):
            if self._room > 0:
                os.write(self._file, chunk[: self._room])
                if len(chunk) > self._room:
                    os.write(self._file, LEFT_OUT)
        self._room -= len(chunk)


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
    with selectors.DefaultSelector() as selector:
        for stream, name in ((runner.stdout, "stdout.log"), (runner.stderr, "stderr.log")):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, _Output(home / name))
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
