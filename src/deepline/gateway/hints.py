"""Hints that a run may have changed, so that whoever watches it need not wait for the next poll.

A hint is never truth: whoever misses one is late by a poll, not wrong (C08, L12). A watch is
opened before the state is read, so a change between the read and the wait is not slept through.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import trio

from deepline.core.model.identity import RunId


class Watch(Protocol):
    """One watcher's view of a run."""

    async def changed(self) -> None:
        """Return when a hint came since the watch was opened or since the last return."""
        ...


class Hints(Protocol):
    """Where the watchers of runs wait."""

    def watch(self, run_id: RunId) -> AbstractContextManager[Watch]:
        """Watch one run until the block ends."""
        ...


class _EventWatch:
    def __init__(self) -> None:
        self._event = trio.Event()

    def poke(self) -> None:
        self._event.set()

    async def changed(self) -> None:
        await self._event.wait()
        self._event = trio.Event()


class RunHints:
    """Hints inside one process; fed from the engine's notifications and from this gateway's writes.

    `poke` and `poke_all` return at once, so they fit `Wakeups.run_ended` and `Wakeups.rescan`.
    Only runs that somebody watches are held.
    """

    def __init__(self) -> None:
        self._watches: dict[RunId, set[_EventWatch]] = {}

    def poke(self, run_id: RunId) -> None:
        """Say that this run may have changed."""
        for watch in self._watches.get(run_id, ()):
            watch.poke()

    def poke_all(self) -> None:
        """Say that any run may have changed, since hints may have been lost."""
        for run_id in self._watches:
            self.poke(run_id)

    @contextmanager
    def watch(self, run_id: RunId) -> Iterator[Watch]:
        """Watch one run until the block ends."""
        watch = _EventWatch()
        self._watches.setdefault(run_id, set()).add(watch)
        try:
            yield watch
        finally:
            watching = self._watches[run_id]
            watching.discard(watch)
            if not watching:
                del self._watches[run_id]
