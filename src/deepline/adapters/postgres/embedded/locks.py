"""File locks between processes that share one embedded server.

The kernel drops them with the process, kill -9 included, so there is no stale lock to clean up.
"""

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

_RETRY_S = 0.05


@asynccontextmanager
async def exclusive(path: Path) -> AsyncIterator[None]:
    """Hold the lock alone. Waits for as long as the caller allows."""
    descriptor = _open(path)
    try:
        while not _try(descriptor, fcntl.LOCK_EX):  # noqa: ASYNC110, another process holds it
            await trio.sleep(_RETRY_S)
        yield
    finally:
        os.close(descriptor)


class SharedLock:
    """A lock that many may hold at once, and of which the last holder can learn that it is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Join the holders. Never waits: call it under the exclusive lock that guards leaving."""
        assert self._descriptor is None
        descriptor = _open(self._path)
        if not _try(descriptor, fcntl.LOCK_SH):
            os.close(descriptor)
            raise BlockingIOError(f"{self._path} is held by somebody who is leaving")
        self._descriptor = descriptor

    def release(self) -> bool:
        """Leave the holders; True if nobody else holds it. Call it under the exclusive lock."""
        if self._descriptor is None:
            return False
        alone = _try(self._descriptor, fcntl.LOCK_EX)
        os.close(self._descriptor)
        self._descriptor = None
        return alone


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
