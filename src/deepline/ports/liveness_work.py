"""What the liveness sweep reads and writes in the store (C39, C41, Q21)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

import attrs

from deepline.core.model.identity import RunId
from deepline.core.model.result import RunnerTerminal
from deepline.core.model.stale_runner import RecordedTerminal, StaleRunner
from deepline.core.model.why import Why


@attrs.frozen(kw_only=True)
class WorkQuery:
    """Which page of liveness work is wanted.

    `after` names the providers to look at, each with the run after which its page begins, `None`
    for the first page; `after_terminal` is the same for recorded terminals. `limit` bounds each
    page alone. `default_timeout` stands in for a suspension's heartbeat timeout that is absent or
    malformed.
    """

    after: Mapping[str, RunId | None]
    after_terminal: RunId | None = None
    limit: int
    default_timeout: timedelta


@attrs.frozen(kw_only=True)
class WorkFound:
    """The pages, each in order of run id; `found_at` is the store's own time of the read."""

    found_at: datetime
    stale: Sequence[StaleRunner]
    terminals: Sequence[RecordedTerminal]


@attrs.frozen
class VerdictStored:
    """The verdict is now the attempt's runner terminal. The run is not ended by it."""


@attrs.frozen
class VerdictRefused:
    """Nothing was written: the attempt is no longer as it was found. `reason` is a short code."""

    reason: str


VerdictOutcome: TypeAlias = VerdictStored | VerdictRefused


class LivenessWork(Protocol):
    """Stale parked runners of every lane, and verdicts on them. Both take one short call."""

    async def find(self, query: WorkQuery) -> WorkFound:
        """Read one page of stale runners a provider, and one of recorded terminals.

        Stale is a waiting attempt on a detached runner without a terminal, of a run that has not
        ended and that nobody asked to cancel, whose latest heartbeat, or start when it never
        beat, is at least its timeout ago by the store's clock. A runner that handed in a
        suspension is none: it has ended as it should.
        """
        ...

    async def record_verdict(
        self, runner: StaleRunner, terminal: RunnerTerminal, why: Why
    ) -> VerdictOutcome:
        """Store the attempt's first terminal if everything about it is as it was found.

        That is: waiting, under the same lease, for the same sandbox at the same boundary, with
        the very same heartbeat and no terminal, its run neither ended nor asked to cancel. Wakes
        nobody: whoever records a verdict settles it.
        """
        ...
