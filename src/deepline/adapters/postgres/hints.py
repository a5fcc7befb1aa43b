"""Hints from the database, coalesced: what may have changed, for one reader to look at (C59).

A notification is a hint and never the truth: it may be lost, come twice, or come late. So equal
hints that nobody has read yet are one hint, and more different ones than the bound are worth as
much as "look at everything".
"""

import attrs
import trio

PENDING_MAX = 1024


@attrs.frozen
class Hint:
    """Something happened on a channel."""

    channel: str
    payload: str


@attrs.frozen
class Hinted:
    """What came since the last look; `rescan` when that may not be all."""

    hints: frozenset[Hint]
    rescan: bool


class Hints:
    """Where a listener puts hints and one reader takes them. Putting never waits."""

    def __init__(self, pending_max: int = PENDING_MAX) -> None:
        self._pending_max = pending_max
        self._pending: set[Hint] = set()
        self._rescan = False
        self._arrival = trio.Event()

    def put(self, hint: Hint) -> None:
        """Remember a hint, or that there were too many."""
        if len(self._pending) < self._pending_max or hint in self._pending:
            self._pending.add(hint)
            self._arrival.set()
        else:
            self.rescan()

    def rescan(self) -> None:
        """Remember that hints may have been missed; those that wait add nothing to that."""
        self._pending.clear()
        self._rescan = True
        self._arrival.set()

    async def take(self) -> Hinted:
        """Everything that came since the last call. Waits for the first; cancelled, takes none."""
        await self._arrival.wait()
        taken = Hinted(frozenset(self._pending), self._rescan)
        self._pending.clear()
        self._rescan = False
        self._arrival = trio.Event()
        return taken
