"""A lane as the registry knows it: what it holds, who serves it, what was asked (C56, C57)."""

from collections.abc import Sequence
from datetime import datetime

import attrs

from deepline.core.model.identity import Lane, ReleaseId


@attrs.frozen(kw_only=True)
class LaneWorker:
    """A worker as it last said that it serves a lane.

    `adopted`: the lane is not its own. `leaving`: it ends once its own lane holds nothing.
    `release_id` is the worker's own.
    """

    worker: str
    release_id: ReleaseId | None
    adopted: bool
    leaving: bool
    started_at: datetime
    seen_at: datetime


@attrs.frozen(kw_only=True)
class LaneState:
    """One lane, read at `read_at` by the store's clock, by which all its instants are.

    `open_tasks` counts the engine's tasks that are not over. Of the open runs `queued` were never
    admitted, `running` were, and `parked` wait; `oldest_open_at` is when the oldest of the latter
    two was submitted. `draining`: its workers are to leave and its work is to go to others.
    `handed_over`: whoever adopts lanes may take it at once. `workers` are newest first.
    """

    lane: Lane
    release_id: ReleaseId | None
    read_at: datetime
    created_at: datetime
    last_claim_at: datetime | None = None
    open_tasks: int = 0
    queued: int = 0
    running: int = 0
    parked: int = 0
    oldest_open_at: datetime | None = None
    draining: bool = False
    handed_over: bool = False
    workers: Sequence[LaneWorker] = ()

    @property
    def begun(self) -> int:
        """The open runs that were admitted once."""
        return self.running + self.parked
