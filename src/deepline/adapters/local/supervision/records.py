"""Small JSON files that are whole or absent."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO


def private(path: Path) -> TextIO:
    """Open a fresh file for writing that only this account may read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "w")


def write_record(path: Path, record: Mapping[str, object]) -> None:
    """Write a small JSON file so that a reader sees all of it or none, even after a power cut."""
    temporary = path.with_name(path.name + ".tmp")
    with private(temporary) as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
