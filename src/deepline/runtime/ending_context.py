"""What ending a run needs, be it a worker under its claim or a controller (C21, C35)."""

from collections.abc import Sequence
from typing import Protocol

from deepline.core.limits import Limits
from deepline.core.model.placement import PlacementPolicy
from deepline.ports.clock import Clock
from deepline.ports.receipts import Receipts
from deepline.ports.sheets import Sheets
from deepline.ports.telemetry import Telemetry
from deepline.ports.terminals import Terminals
from deepline.ports.usage import Usage
from deepline.runtime.cleanup_controller import CleanupController
from deepline.runtime.dispatcher import Dispatcher


class EndingPorts(Protocol):
    """The ports through which a run ends and what it held is let go of."""

    @property
    def terminals(self) -> Terminals:
        """How runs end."""
        ...

    @property
    def sheets(self) -> Sheets:
        """The data plane's account of the rows."""
        ...

    @property
    def receipts(self) -> Receipts:
        """What the attempt had claimed outside."""
        ...

    @property
    def usage(self) -> Usage:
        """Sandbox time."""
        ...

    @property
    def telemetry(self) -> Telemetry:
        """Telling the world."""
        ...

    @property
    def clock(self) -> Clock:
        """The one way in for time."""
        ...


class EndingContext(Protocol):
    """The ports with the services around them.

    `cleanup` is `None` where another process deletes sandboxes, `dispatcher` where another
    delivers facts.
    """

    @property
    def ports(self) -> EndingPorts:
        """The ports."""
        ...

    @property
    def limits(self) -> Limits:
        """Bounds and periods."""
        ...

    @property
    def policies(self) -> Sequence[PlacementPolicy]:
        """The placement policies known here."""
        ...

    @property
    def production(self) -> bool:
        """Are canaries reported?"""
        ...

    @property
    def cleanup(self) -> CleanupController | None:
        """Who deletes sandboxes in this process."""
        ...

    @property
    def dispatcher(self) -> Dispatcher | None:
        """Who delivers facts in this process."""
        ...
