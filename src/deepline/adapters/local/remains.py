"""What a dead runner left in a local sandbox: its exit, and the end of what it printed (C44)."""

import os
from collections.abc import Iterator
from pathlib import Path

from deepline.adapters.local.inspection import inspect
from deepline.adapters.local.layout import Root
from deepline.core.crash_diagnostics import LINES_MAX, Remains
from deepline.core.model.sandbox import Stage

TAIL_BYTES = 64 * 1024
_STREAMS = ("stdout", "stderr")


def read_remains(root: Root, name: str) -> Remains | None:
    """Read the sandbox of that name; blocks on the disk. `None` when it is not there."""
    found = inspect(root, name)
    if found.stage is Stage.SANDBOX_NOT_FOUND:
        return None
    run = root.home(name).run
    lines = [line for stream in _STREAMS for line in _tail(run / f"{stream}.log", stream)]
    return Remains(
        stage=found.stage.value,
        exit_code=found.exit_code,
        detail=found.detail,
        lines=lines,
    )


def _tail(file: Path, stream: str) -> Iterator[str]:
    """The last lines of one stream; half of what is kept, so that neither pushes the other out."""
    try:
        with file.open("rb") as opened:
            opened.seek(0, os.SEEK_END)
            opened.seek(max(0, opened.tell() - TAIL_BYTES))
            text = opened.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines()[-LINES_MAX // 2 :]:
        yield f"{stream}: {line}"
