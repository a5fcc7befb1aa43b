"""How much there is to do and what is left undone, in figures for operators (C58, FAULTS F78)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import attrs

from deepline.core.model.identity import Lane


@attrs.frozen(kw_only=True)
class Pile:
    """Things of one kind: how many, and how long the oldest has been there."""

    count: int = 0
    oldest: timedelta = timedelta(0)


EMPTY = Pile()


@attrs.frozen(kw_only=True)
class LaneFigures:
    """One lane's open runs by state.

    `queued` ages count from submission, the others from admission. `stale_leases` are claims past
    their end, `running_without_lease` runs that nobody holds, `given_up` open runs whose engine
    task is over. `claimed_ago` is `None` for a lane that nobody ever served.
    """

    lane: Lane
    queued: Pile = EMPTY
    running: Pile = EMPTY
    waiting: Pile = EMPTY
    stale_leases: int = 0
    running_without_lease: int = 0
    given_up: int = 0
    claimed_ago: timedelta | None = None


@attrs.frozen(kw_only=True)
class Figures:
    """The whole store at one moment, by its own clock.

    `unsettled` are runner terminals that no run has ended with yet. `detached` are parked runners;
    the oldest is the longest silence, and `silent` how many are past their timeout. `stuck` cleanup
    has failed so often that somebody should look. `waits` are runs parked for an event without a
    limit, which only a signal or a person ends (F26). `sandboxes` are those held, by provider.
    """

    taken_at: datetime
    lanes: Sequence[LaneFigures] = ()
    unsettled: Pile = EMPTY
    detached: Pile = EMPTY
    silent: int = 0
    outbox: Pile = EMPTY
    outbox_dead: int = 0
    cleanup: Pile = EMPTY
    cleanup_stuck: int = 0
    waits: Pile = EMPTY
    sandboxes: Mapping[str, int] = attrs.field(factory=dict[str, int])


class Census(Protocol):
    """Counts what is open; ended runs cost it nothing."""

    async def take(self, *, silent_after: timedelta, stuck_after: int) -> Figures:
        """Count everything, in time that grows with the open runs.

        `silent_after` is the timeout of runners whose suspension names none, `stuck_after` the
        failures after which a cleanup is stuck.
        """
        ...
