"""Heartbeats (C34, Q51). The sweep's reads join here."""

from datetime import datetime
from typing import Protocol, TypeAlias

import attrs

from deepline.core.model.heartbeat import HeartbeatIdentity, Liveness
from deepline.core.model.identity import AttemptKey


@attrs.frozen
class BeatAccepted:
    """The beat counts, under this identity."""

    identity: HeartbeatIdentity


@attrs.frozen
class BeatRefused:
    """The attempt is not live or has its terminal: the runner should stop.

    `reason` is a short code.
    """

    reason: str


BeatOutcome: TypeAlias = BeatAccepted | BeatRefused


class LivenessStore(Protocol):
    """The heart of each attempt, in the store's own time."""

    async def beat(self, key: AttemptKey) -> BeatOutcome:
        """Accept a heartbeat of a live attempt without a terminal; each gives a new identity."""
        ...

    async def read(self, key: AttemptKey) -> Liveness | None:
        """Read the attempt's liveness; `None` when there is no such attempt."""
        ...

    async def now(self) -> datetime:
        """The store's clock, by which hearts, sleeps and limits are judged (Q50).

        A runner is told it, so that a sleep lasts as long as its play asked for, whatever the
        clocks of its sandbox and its gateway say.
        """
        ...
