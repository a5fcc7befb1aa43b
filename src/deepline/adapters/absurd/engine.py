"""Leases, due times and hints of the engine (ENGINE §3).

Absurd knows no notifications; ours are sent in the transactions that cause them, and whoever
misses one is late, not wrong.
"""

from collections.abc import Sequence
from datetime import timedelta

from deepline.adapters.postgres.hints import Hint
from deepline.adapters.postgres.listen import listen
from deepline.adapters.postgres.rows import claim_fields
from deepline.adapters.postgres.settings import ConnectionSettings
from deepline.adapters.postgres.steps import Steps
from deepline.core.model.claim import Claim
from deepline.core.model.identity import Lane, RunId
from deepline.ports.engine import Wakeups

WAKE_CHANNEL = "deepline_wake"
CANCEL_CHANNEL = "deepline_cancel"
TERMINAL_CHANNEL = "deepline_terminal"
_NO_LIMIT = 2**31 - 1


class AbsurdEngine:
    """Implements `Engine`.

    `listening` is how to reach the database for LISTEN, past any pooler. The organisation limit
    that decides whether an admission could let queued work through is the one of the lane's last
    claim in this process (`remember_org_limit`).
    """

    def __init__(self, steps: Steps, listening: ConnectionSettings) -> None:
        self._steps = steps
        self._listening = listening
        self._org_limits: dict[Lane, int] = {}

    def remember_org_limit(self, lane: Lane, org_limit: int) -> None:
        """Take note of the limit a claim of this lane was made under."""
        self._org_limits[lane] = org_limit

    async def extend(self, claims: Sequence[Claim], lease: timedelta) -> Sequence[Claim]:
        """Extend all claims in one step; returns the lost ones."""
        if not claims:
            return []
        answers = await self._steps.write_together(
            "extend_claims", [claim_fields(claim) for claim in claims], int(lease.total_seconds())
        )
        return [
            claim
            for claim, answer in zip(claims, answers, strict=True)
            if isinstance(answer, dict) and not answer["held"]
        ]

    async def next_due(self, lane: Lane) -> timedelta | None:
        """How long until the lane next has something due."""
        limit = self._org_limits.get(lane, _NO_LIMIT)
        rows = await self._steps.read("select {schema}.next_due(%s, %s)", lane, limit)
        seconds = rows[0][0]
        return None if seconds is None else timedelta(seconds=float(str(seconds)))

    async def fail(self, claim: Claim, reason: str) -> bool:
        """Spend this engine attempt."""
        return await self._end(claim, reason)

    async def complete(self, claim: Claim) -> bool:
        """Complete the engine task of a run with nothing to do."""
        return await self._end(claim, None)

    async def listen(self, wakeups: Wakeups) -> None:
        """Deliver hints until cancelled."""

        def deliver(hint: Hint) -> None:
            if hint.channel == WAKE_CHANNEL:
                wakeups.lane_woken(Lane(hint.payload))
            elif hint.channel == CANCEL_CHANNEL:
                wakeups.run_cancelled(RunId(hint.payload))
            else:
                wakeups.run_ended(RunId(hint.payload))

        await listen(
            self._listening,
            (WAKE_CHANNEL, CANCEL_CHANNEL, TERMINAL_CHANNEL),
            deliver,
            wakeups.rescan,
        )

    async def _end(self, claim: Claim, failure: str | None) -> bool:
        answer = await self._steps.write("end_claims", claim_fields(claim) | {"failure": failure})
        assert isinstance(answer, dict)
        return bool(answer["held"])
