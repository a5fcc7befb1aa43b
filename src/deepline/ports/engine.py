"""The queue under the runs: leases of claims, wake-ups, due times (ENGINE).

What changes a run and the engine together is an operation of `Attempts`, `Terminals` or
`Admission`; here is what concerns the engine alone.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

import attrs

from deepline.core.model.claim import Claim
from deepline.core.model.identity import Lane, RunId


@attrs.frozen(kw_only=True)
class Wakeups:
    """Where to deliver hints; each callable returns at once and must not raise.

    `lane_woken` names a lane with new due work, `run_cancelled` a run whose work should stop,
    `run_ended` a run that became terminal, `rescan` that hints may have been lost.
    """

    lane_woken: Callable[[Lane], None]
    run_cancelled: Callable[[RunId], None]
    run_ended: Callable[[RunId], None]
    rescan: Callable[[], None]


class Engine(Protocol):
    """Leases and hints. Hints are never truth: whoever misses one is late, not wrong (L12)."""

    async def extend(self, claims: Sequence[Claim], lease: timedelta) -> Sequence[Claim]:
        """Extend all claims in one step; returns those which are lost and must write no more."""
        ...

    async def next_due(self, lane: Lane) -> timedelta | None:
        """How long until the lane next has something due; `None` when nothing is planned.

        Cheap enough to ask after each empty claim. Never negative. Counts work held back by
        admission only when an admission could let it through now.
        """
        ...

    async def fail(self, claim: Claim, reason: str) -> bool:
        """Spend this engine attempt; the engine retries with backoff. False: the claim is lost."""
        ...

    async def complete(self, claim: Claim) -> bool:
        """Complete the engine task of a run with nothing (more) to do. False: claim lost."""
        ...

    async def listen(self, wakeups: Wakeups) -> None:
        """Deliver hints until cancelled. Raises `Unavailable` when the line is lost.

        Says `rescan` once it listens, so that nothing sent before is missed for long.
        """
        ...
