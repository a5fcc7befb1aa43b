"""What the tests of workers that die at calls to a provider have in common (F66, F73, F74)."""

import time
from typing import Protocol

from deepline.core.model.identity import RunId
from tests.support.fleet import Fleet

PATIENCE_S = 60.0


class Faulty(Protocol):
    """An emulator that was told when to misbehave."""

    def faults_left(self) -> int:
        """How many of its faults have hit nobody yet."""
        ...


def wait_until_stuck(emulator: Faulty) -> None:
    """Wait until every fault has hit a run."""
    until = time.monotonic() + PATIENCE_S
    while left := emulator.faults_left():
        assert time.monotonic() < until, f"{left} faults hit nobody"
        time.sleep(0.05)


def accepted_ends(fleet: Fleet) -> dict[RunId, bool]:
    """Of each run whose deletion was accepted: does its time end at the first acceptance?"""
    return dict(
        fleet.truth.rows(
            """
            select u.run_id, u.ended_at = greatest(u.started_at, min(e.at))
            from deepline.sandbox_usage u
            join deepline.cleanup_events e using (run_id, attempt, provider, sandbox_id)
            where e.kind = 'provider_delete_accepted'
            group by u.run_id, u.ended_at, u.started_at
            """
        )
    )
