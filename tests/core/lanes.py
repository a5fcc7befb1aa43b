"""Lanes as tests of their rules need them: read at one instant, with workers seen some time ago."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import attrs

from deepline.core.model.identity import Lane, ReleaseId
from deepline.core.model.lane import LaneState, LaneWorker

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
OWN = Lane("runs_own")
OLD = Lane("runs_old")
LOST = timedelta(seconds=45)


def ago(seconds: float) -> datetime:
    """So many seconds before the reading."""
    return NOW - timedelta(seconds=seconds)


def worker(
    name: str = "w1", *, seen_s: float = 1, adopted: bool = False, leaving: bool = False
) -> LaneWorker:
    """A worker that was seen so long ago."""
    return LaneWorker(
        worker=name,
        release_id=ReleaseId("release-2") if adopted else ReleaseId("release-1"),
        adopted=adopted,
        leaving=leaving,
        started_at=ago(seen_s + 60),
        seen_at=ago(seen_s),
    )


def lane(
    *workers: LaneWorker,
    name: Lane = OLD,
    parked: int = 0,
    running: int = 0,
    queued: int = 0,
    claimed_s: float | None = 600,
    made_s: float = 3_600,
    oldest_s: float = 600,
    draining: bool = False,
    handed_over: bool = False,
) -> LaneState:
    """A lane of the release before, claimed and made so many seconds ago."""
    begun = parked + running
    return LaneState(
        lane=name,
        release_id=ReleaseId(f"release of {name}"),
        read_at=NOW,
        created_at=ago(made_s),
        last_claim_at=None if claimed_s is None else ago(claimed_s),
        open_tasks=begun + queued,
        queued=queued,
        running=running,
        parked=parked,
        oldest_open_at=ago(oldest_s) if begun else None,
        draining=draining,
        handed_over=handed_over,
        workers=workers,
    )


def named(names: Sequence[str], state: LaneState) -> list[LaneState]:
    """The same state under several names."""
    return [attrs.evolve(state, lane=Lane(name), release_id=ReleaseId(name)) for name in names]
