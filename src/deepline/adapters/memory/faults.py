"""Where a simulation may strike: around every operation and at every hint (TRIO 4.4).

Each port object holds its own `Faults`, so that one process may lose its link to the store while
another keeps it.
"""

from typing import Protocol


class Faults(Protocol):
    """Called around each operation, named `port.method` such as `attempts.claim`."""

    async def before(self, operation: str) -> None:
        """Runs before the step. It may wait, or raise: then nothing was written."""
        ...

    async def after(self, operation: str) -> None:
        """Runs after the step. It may wait, or raise `OutcomeUnknown`: all was written."""
        ...

    def delivers(self, hint: str) -> bool:
        """Answers whether the hint, named as in `Wakeups`, reaches this process."""
        ...


class NoFaults:
    """Nothing ever goes wrong."""

    async def before(self, operation: str) -> None:
        """Let it pass."""

    async def after(self, operation: str) -> None:
        """Let it pass."""

    def delivers(self, hint: str) -> bool:
        """Deliver everything."""
        return True


NO_FAULTS = NoFaults()
