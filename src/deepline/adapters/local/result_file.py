"""Reading the result that a runner left behind, which a play may have tampered with (F03, F12).

Anything but a result that is whole and storable is none. Nothing here raises
for what a file holds.
"""

import os
import stat
from pathlib import Path

from deepline.core.model.result import RunnerResult
from deepline.ports.errors import MalformedDocument
from deepline.ports.wire import parse_json, result_from_json

RESULT_BYTES_MAX = 32 << 20
"""As much as the gateway takes when a runner pushes."""


def read_result(path: Path) -> RunnerResult | None:
    """The result in the file; `None` when there is none that could be used."""
    try:
        text = _read_regular(path)
        return None if text is None else result_from_json(parse_json(text, RESULT_BYTES_MAX))
    except (OSError, MalformedDocument):
        return None


def _read_regular(path: Path) -> bytes | None:
    """The bytes of a plain file of bearable size; a link, a pipe or a device is none."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > RESULT_BYTES_MAX:
            return None
        text = file.read(RESULT_BYTES_MAX + 1)
        return text if len(text) <= RESULT_BYTES_MAX else None
