"""Lanes and the releases that serve them (C05, C56, C57)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import attrs

from deepline.core.model.identity import Lane, ReleaseId
from deepline.core.model.lane import LaneState


@attrs.frozen
class ServedLane:
    """A lane that a worker serves, its own or an adopted one."""

    lane: Lane
    adopted: bool = False


@attrs.frozen(kw_only=True)
class LaneBeat:
    """What a worker says of itself: the lanes it serves, and whether it leaves once it can.

    `worker` is unique per process start.
    """

    worker: str
    release_id: ReleaseId | None
    served: Sequence[ServedLane]
    leaving: bool = False


class Lanes(Protocol):
    """The registry of lanes."""

    async def all(self) -> Sequence[LaneState]:
        """Every lane, oldest first; of more than 2,000 the newest."""
        ...

    async def read(self, lane: Lane) -> LaneState | None:
        """One lane; `None` when the registry does not have it."""
        ...

    async def beat(self, beat: LaneBeat) -> None:
        """Remember that the worker serves just these lanes, now.

        A worker that stays takes a handed-over lane of its own back. Workers silent for a day are
        forgotten.
        """
        ...

    async def left(self, worker: str) -> None:
        """Forget a worker that serves nothing any more. Idempotent."""
        ...

    async def drain(self, lane: Lane, *, draining: bool) -> bool:
        """Say that the lane's workers are to leave, or not any more; False without such a lane."""
        ...

    async def hand_over(self, lane: Lane) -> bool:
        """Let other workers take the lane at once; False when there is no such lane."""
        ...

    async def prune(self, lane: Lane, *, lost_after: timedelta) -> bool:
        """Remove the lane with its queue if it holds nothing and nobody serves it.

        False: it stays, unchanged. Whoever submits to it later makes it again.
        """
        ...
