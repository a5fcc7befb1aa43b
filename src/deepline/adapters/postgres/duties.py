"""Leases of duties on Postgres, in the database's own time."""

from datetime import timedelta
from typing import Any

from deepline.adapters.postgres.steps import Steps
from deepline.ports.duties import DutyAnswer, DutyElsewhere, DutyHeld


class PostgresDuties:
    """Implements `Duties`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def take(self, duty: str, owner: str, *, lease: timedelta) -> DutyAnswer:
        """Take the duty if it is free, its lease has ended, or it is this owner's already."""
        [row] = await self._steps.call("take_duty", duty, owner, lease.total_seconds())
        holder, left_s = _pair(row)
        return DutyHeld() if holder == owner else DutyElsewhere(timedelta(seconds=left_s))

    async def renew(self, duty: str, owner: str, *, lease: timedelta) -> bool:
        """Lengthen a lease that is still this owner's."""
        [row] = await self._steps.call("renew_duty", duty, owner, lease.total_seconds())
        return bool(row[0])

    async def release(self, duty: str, owner: str) -> None:
        """Let the duty go if it is this owner's."""
        await self._steps.call("release_duty", duty, owner)


def _pair(row: tuple[Any, ...]) -> tuple[str, float]:
    holder, left_s = row
    return str(holder), float(left_s)
