"""A lock that costs nothing while nobody else holds it.

trio.Lock yields to the scheduler on every acquire. A connection is locked once a statement and
hardly ever contended, so that trip would be a good part of what a short statement costs.
"""

from types import TracebackType

import trio


class UncontendedLock:
    """Mutual exclusion, first come first served; a checkpoint only when it has to wait."""

    def __init__(self) -> None:
        self._held = False
        self._waiting = trio.lowlevel.ParkingLot()

    def locked(self) -> bool:
        """Whether somebody holds it."""
        return self._held

    async def __aenter__(self) -> None:
        if self._held:
            await self._waiting.park()  # whoever lets go hands it over
        else:
            self._held = True

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._waiting:
            self._waiting.unpark()
        else:
            self._held = False
