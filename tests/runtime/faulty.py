"""Faults for one operation of the store or a provider, for tests of what comes between effects."""

from collections.abc import Callable

import attrs
import trio

from deepline.adapters.memory.faults import NoFaults
from deepline.ports.errors import PortError


@attrs.define(eq=False)
class Struck(NoFaults):
    """One operation meets errors, one a call: those of `before` first, then those of `after`.

    An error before it means that nothing was done; after it, that it was done and the answer lost.
    """

    operation: str
    before_it: list[PortError] = attrs.field(factory=list)
    after_it: list[PortError] = attrs.field(factory=list)
    armed: Callable[[], bool] = lambda: True
    met: int = 0

    async def before(self, operation: str) -> None:
        """Nothing was done."""
        await self._strike(operation, self.before_it)

    async def after(self, operation: str) -> None:
        """It was done, and nobody knows."""
        await self._strike(operation, self.after_it)

    async def _strike(self, operation: str, errors: list[PortError]) -> None:
        if operation == self.operation and errors and self.armed():
            self.met += 1
            raise errors.pop(0)

    @property
    def spent(self) -> bool:
        """True when every error has been met."""
        return not self.before_it and not self.after_it


@attrs.define(eq=False)
class Hanging(NoFaults):
    """One operation never answers."""

    operation: str
    armed: Callable[[], bool] = lambda: True
    met: int = 0

    async def before(self, operation: str) -> None:
        """Hang."""
        if operation == self.operation and self.armed():
            self.met += 1
            await trio.sleep_forever()


def times(count: int, error: PortError) -> list[PortError]:
    """The same error so many times."""
    return [error] * count
