"""Claiming work and moving an attempt through its life, every write fenced (C12, C17, C29, C54)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

import attrs

from deepline.core.model.attempt import Attempt, RetireReason
from deepline.core.model.checkpoint import Checkpoint, SilenceWatch
from deepline.core.model.claim import Claim, Prepared
from deepline.core.model.identity import AttemptKey, AttemptRef, Lane
from deepline.core.model.sandbox import SandboxRef
from deepline.core.model.suspension import DetachedSuspension, Suspension
from deepline.core.model.why import Why


@attrs.frozen(kw_only=True)
class ClaimRequest:
    """How many runs of a lane to admit, claim and prepare, for whom.

    `owner` must be unique for this call. `placement_keys` are the keys this worker can run.
    `org_limit` bounds the runs in flight of one organisation on the lane.
    `quantity` ≥ 1; `lease` is whole seconds.
    """

    lane: Lane
    owner: str
    worker: str
    lease: timedelta
    quantity: int
    org_limit: int
    placement_keys: Sequence[str]


@attrs.frozen
class Parked:
    """The attempt waits and the engine run sleeps until `until`, the safety of a lost wake."""

    until: datetime


@attrs.frozen
class Retired:
    """The attempt is over and its run is queued again, due after the delay asked for."""

    outage_started_at: datetime | None


@attrs.frozen
class OutageExhausted:
    """The outage has lasted its bound; nothing was written (C17.2)."""

    outage_started_at: datetime


@attrs.frozen
class LostFence:
    """Nothing was written: the attempt or the claim is no longer this holder's."""


@attrs.frozen
class PreCodeRecovery:
    """What is stored of a run's waiting for one dependency (C53)."""

    first_failed_at: datetime
    deferrals: int


ParkOutcome: TypeAlias = Parked | LostFence
RetireOutcome: TypeAlias = Retired | LostFence
OutageOutcome: TypeAlias = Retired | OutageExhausted | LostFence


class Attempts(Protocol):
    """The attempt's row, its run row and its engine run, changed together."""

    async def claim(self, request: ClaimRequest) -> Sequence[Prepared]:
        """Admit fairly by organisation, claim up to `quantity` engine runs and prepare each.

        A run not admitted yet ranks by its organisation's runs in flight plus its position in
        the organisation, then by age; runs resumed or deferred do not queue behind a fresh
        backlog (Q38). Each answer says what was found; only `Fresh` and `Wake` carry a live
        attempt. An attempt of a lost claim which had no runner started is retired with a cleanup
        obligation before a fresh one is created (I13).
        """
        ...

    async def prepare(
        self, claim: Claim, *, placement_keys: Sequence[str], worker: str
    ) -> Prepared:
        """Prepare the run of a claim in hand once more (C13). Raises `FenceLost` if it is lost."""
        ...

    async def read(self, key: AttemptKey) -> Attempt | None:
        """Read one attempt as it stands."""
        ...

    async def bind_sandbox(
        self,
        ref: AttemptRef,
        sandbox: SandboxRef,
        suspension: DetachedSuspension,
        *,
        operation_key: str,
        why: Why | None = None,
    ) -> bool:
        """Record the sandbox and the runner about to be started on it, under the fence (C46.4).

        `why` is a decision about its provider that is written down with the first such record.

        From here on play code may have started, and whoever claims the run wakes this attempt.
        False when the fence is lost: then the sandbox was recorded as a late operation for
        cleanup in the same commit (C64, I50).
        """
        ...

    async def park(
        self,
        ref: AttemptRef,
        claim: Claim,
        suspension: Suspension,
        *,
        until: datetime,
        checkpoint: Checkpoint,
        silence: SilenceWatch | None,
        why: Why,
    ) -> ParkOutcome:
        """Mark the attempt waiting and put its engine run to sleep, in one commit (C29).

        A waiting attempt may be parked again as it stands. Spends no engine attempt. If a runner
        terminal, another heartbeat than the watched one or a matching signal is stored already,
        the engine run is due at once; also if it is to wait for a runner that has handed in a
        suspension. Parking on a sleep or an event takes what was handed in over. Who waits for a
        time or an event holds no sandbox: what the attempt had is owed a cleanup in the same
        commit.
        """
        ...

    async def resume(self, ref: AttemptRef, claim: Claim, checkpoint: Checkpoint) -> bool:
        """Take a waiting attempt back to running under its own fence (C20, C21.1, C29.2).

        The checkpoint, with the answers of the suspension points passed, is stored in the same
        commit, for the runner that is started next to read. False when nothing was changed: the
        fence or the claim is lost, or it runs already.
        """
        ...

    async def defer(self, claim: Claim, delay: timedelta, why: Why) -> bool:
        """Let the engine run sleep for `delay` and write nothing else; spends no attempt.

        False when the claim is lost.
        """
        ...

    async def retire(
        self,
        ref: AttemptRef,
        claim: Claim,
        reason: RetireReason,
        *,
        delay: timedelta,
        why: Why,
        dependency: str | None = None,
    ) -> RetireOutcome:
        """Give a fresh attempt up; queue its run again with a cleanup obligation (C54, I13).

        The next attempt begins with this one's checkpoint, so that what a play was answered before
        it was resumed is not lost.
        With `dependency` the wait for it is counted in the same commit (C53).
        """
        ...

    async def recovery(self, key: AttemptKey, dependency: str) -> PreCodeRecovery | None:
        """Read how long and how often this run has waited for a dependency."""
        ...

    async def fail(self, ref: AttemptRef, claim: Claim, why: Why, *, reason: str) -> bool:
        """Spend the engine attempt and, if the attempt is live and fresh, retire it (C19.6, I13).

        A fresh attempt is one whose runner was never bound; its cleanup obligation rides the same
        commit. A bound or waiting attempt stays as it is, for its runner may live (A31). False
        when the claim is lost: then nothing was written.
        """
        ...

    async def retire_for_outage(
        self, ref: AttemptRef, claim: Claim, *, bound: timedelta, delay: timedelta, why: Why
    ) -> OutageOutcome:
        """Give a fresh attempt up while its token outage is within `bound`, by the store's clock.

        The outage starts now unless the attempt's chain carries a start. Past the bound nothing
        is written. The cleanup obligation rides the same commit (C17, C50).
        """
        ...

    async def token_obtained(self, ref: AttemptRef) -> None:
        """Break the outage chain of this attempt (Q31); lost fences are ignored."""
        ...

    async def is_live(self, ref: AttemptRef) -> bool:
        """Is this exact attempt, under this lease token, running or waiting (token route, C16)?"""
        ...

    async def key_is_live(self, key: AttemptKey) -> bool:
        """Is this attempt running or waiting, for a runner that proved it with its token?"""
        ...
