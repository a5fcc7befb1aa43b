"""Output that may be endless, kept in a file that is not."""

import contextlib
import os
from pathlib import Path


class CappedLog:
    """A file that keeps the first and the last part of what is written and counts the rest."""

    def __init__(self, path: Path, head_bytes: int, tail_bytes: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._room = head_bytes
        self._tail_bytes = tail_bytes
        self._tail = bytearray()
        self._left_out = 0

    def write(self, chunk: bytes) -> None:
        """Take the next chunk. A full disk loses output, never the run."""
        head, rest = chunk[: self._room], chunk[self._room :]
        if head:
            self._room -= len(head)
            self._append(head)
        self._tail += rest
        if len(self._tail) > 2 * self._tail_bytes:
            self._shorten()

    def close(self) -> None:
        """Write the tail after a line that says how much is missing between."""
        self._shorten()
        if self._left_out:
            self._append(f"\n[deepline: {self._left_out} bytes left out]\n".encode())
        self._append(bytes(self._tail))
        os.close(self._file)

    def _shorten(self) -> None:
        surplus = max(0, len(self._tail) - self._tail_bytes)
        del self._tail[:surplus]
        self._left_out += surplus

    def _append(self, chunk: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._file, chunk)
