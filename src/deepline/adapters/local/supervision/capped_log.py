"""Output that may be endless, kept in a file that is not."""

import contextlib
import os
from collections import deque
from pathlib import Path


class CappedLog:
    """A file that keeps the first and the last part of what is written and counts the rest."""

    def __init__(self, path: Path, head_bytes: int, tail_bytes: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._room = head_bytes
        self._tail_bytes = tail_bytes
        self._tail: deque[bytes] = deque()
        self._held = 0
        self._left_out = 0

    def write(self, chunk: bytes) -> None:
        """Take the next chunk. A full disk loses output, never the run."""
        head, rest = chunk[: self._room], chunk[self._room :]
        if head:
            self._room -= len(head)
            self._append(head)
        if rest:
            self._tail.append(rest)
            self._held += len(rest)
        while self._tail and self._held - len(self._tail[0]) >= self._tail_bytes:
            gone = len(self._tail.popleft())
            self._held -= gone
            self._left_out += gone

    def close(self) -> None:
        """Write the tail after a line that says how much is missing between."""
        if self._left_out:
            self._append(f"\n[deepline: {self._left_out} bytes left out]\n".encode())
        for chunk in self._tail:
            self._append(chunk)
        os.close(self._file)

    def _append(self, chunk: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._file, chunk)
