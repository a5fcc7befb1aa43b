"""Delivering facts to the run ledger (C26.4)."""

from collections.abc import Sequence
from typing import Protocol

from deepline.core.model.launch import Launch
from deepline.core.model.ledger import Fact


class Ledger(Protocol):
    """The view that users read, wherever it lives; applies each event id once."""

    async def deliver(self, launch: Launch, facts: Sequence[Fact]) -> None:
        """Apply facts of one run in order; when it returns, all are applied.

        Raises `Unavailable`, `CapacityExceeded`, `OutcomeUnknown` (deliver again) or `Refused`.
        """
        ...
