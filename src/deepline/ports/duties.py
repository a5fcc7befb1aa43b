"""Duties that one process at a time does for the whole deployment (DESIGN §4, C02 role b)."""

from datetime import timedelta
from typing import Protocol, TypeAlias

import attrs


@attrs.frozen
class DutyHeld:
    """The duty is this owner's, for the whole lease from now on."""


@attrs.frozen
class DutyElsewhere:
    """Another owner holds the duty; unless it renews, its lease ends in `left`."""

    left: timedelta


DutyAnswer: TypeAlias = DutyHeld | DutyElsewhere


class Duties(Protocol):
    """Leases of named duties, timed by the store's own clock. `owner` is unique per process."""

    async def take(self, duty: str, owner: str, *, lease: timedelta) -> DutyAnswer:
        """Take the duty if it is free, its lease has ended, or it is this owner's already."""
        ...

    async def renew(self, duty: str, owner: str, *, lease: timedelta) -> bool:
        """Lengthen a lease that is still this owner's; False when another took it meanwhile."""
        ...

    async def release(self, duty: str, owner: str) -> None:
        """Let the duty go if it is this owner's, so that another need not wait for its lease."""
        ...
