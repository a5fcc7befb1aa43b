"""Lanes and the releases that serve them (C05, C56, C57)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import attrs

from deepline.core.model.identity import Lane, ReleaseId


@attrs.frozen(kw_only=True)
class LaneState:
    """What a lane holds and when it was last served."""

    lane: Lane
    release_id: ReleaseId | None
    last_claim_at: datetime | None
    open_tasks: int


class Lanes(Protocol):
    """The registry of lanes."""

    async def all(self) -> Sequence[LaneState]:
        """Every lane, oldest first."""
        ...
