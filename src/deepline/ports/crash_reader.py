"""Reading what a dead runner left in its sandbox; what a provider may be able to do (C44)."""

from typing import Protocol, runtime_checkable

from deepline.core.crash_diagnostics import Remains
from deepline.core.model.sandbox import SandboxRef


@runtime_checkable
class CrashReader(Protocol):
    """A `SandboxProvider` that has this method too is asked before a sandbox is deleted."""

    async def remains(self, sandbox: SandboxRef) -> Remains | None:
        """Read what is there, `None` when nothing is. Changes nothing.

        Bounded by its caller; raises the errors of `SandboxProvider`.
        """
        ...
