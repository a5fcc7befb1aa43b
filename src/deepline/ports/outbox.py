"""The run-ledger outbox: facts in order, leased to one dispatcher a run (C25, C26, Q34)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import attrs

from deepline.core.model.identity import RunId
from deepline.core.model.launch import Launch
from deepline.core.model.ledger import Fact


@attrs.frozen(kw_only=True)
class OutboxLease:
    """The facts of one run that are due, in order, for one dispatcher until its lease ends.

    `launch` tells where they go. `attempts` counts failed deliveries of the first fact.
    """

    run_id: RunId
    owner: str
    launch: Launch
    facts: Sequence[Fact]
    attempts: int


class Outbox(Protocol):
    """Each run's facts, delivered at least once and in order.

    A fact that was put off, or is a dead letter, holds up all facts of its run behind it.
    """

    async def lease_due(
        self, owner: str, *, runs: int, lease: timedelta, facts_per_run: int
    ) -> Sequence[OutboxLease]:
        """Lease up to `runs` runs with facts due, on any lane, oldest first."""
        ...

    async def lease_run(
        self, run_id: RunId, owner: str, *, lease: timedelta, facts_per_run: int
    ) -> OutboxLease | None:
        """Lease one run's due facts; `None` when nothing is due or another holds the lease."""
        ...

    async def delivered(self, lease: OutboxLease, *, through_seq: int) -> bool:
        """Mark facts up to `through_seq` as applied; releases the lease. False if it was lost.

        A created fact so marked acknowledges the run's creation and makes its engine run due in
        the same commit (C26.7, C13). A terminal fact so marked lets go of the receipts that the
        run still leases (C28).
        """
        ...

    async def failed(self, lease: OutboxLease, *, error: str, delay: timedelta, dead: bool) -> bool:
        """Put the first fact off by `delay`, or among the dead letters; releases the lease."""
        ...
