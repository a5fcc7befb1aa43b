"""How runs end: the runner's terminal, and the scheduler's (C20, C21, C32, C35)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeAlias

import attrs

from deepline.core.model.claim import Claim
from deepline.core.model.heartbeat import HeartbeatFence
from deepline.core.model.identity import AttemptKey, AttemptRef, ReleaseId, RunId
from deepline.core.model.ledger import SettledProgress
from deepline.core.model.result import RunnerTerminal, Suspended
from deepline.core.model.run import RunStatus
from deepline.core.model.why import Why


@attrs.frozen(kw_only=True)
class TerminalCommit:
    """Everything one commit must make durable when a run ends.

    `claim` is `None` when another hand than the claim's settles (recovery, sweep); then the
    engine task is cancelled in the same commit. `from_waiting` also accepts a waiting attempt,
    as a wake's settlement needs. `preserve_runner_terminal` lets a terminal stored on the attempt
    win over `result` (Q44). `keep_log_tail` stores the result's logs with the terminal.
    `stranded` holds the commit to the engine task being over or gone, and then accepts a retired
    attempt too, since nobody could start the run again.
    """

    ref: AttemptRef
    claim: Claim | None
    result: RunnerTerminal
    why: Why
    from_waiting: bool = False
    preserve_runner_terminal: bool = False
    settled_progress: Sequence[SettledProgress] = ()
    keep_log_tail: bool = False
    request_crash_diagnostic: bool = False
    stranded: bool = False


@attrs.frozen(kw_only=True)
class Committed:
    """The run ended now, with this result: the candidate's or, when preserved, the stored one."""

    status: RunStatus
    result: RunnerTerminal
    committed_at: datetime


@attrs.frozen(kw_only=True)
class NotCommitted:
    """The fence is lost; nothing was written. `status` is the run's now, `None` if it is gone."""

    status: RunStatus | None


CommitOutcome: TypeAlias = Committed | NotCommitted


@attrs.frozen
class OfferStored:
    """This offer is now the attempt's runner terminal."""


@attrs.frozen
class OfferAlreadyStored:
    """Another terminal was first; it stays."""


@attrs.frozen
class OfferRefused:
    """Not stored. `liveness_exists` says whether the attempt's row is still there (C32).

    `suspended` says that the play is suspended, or its runner handed in that it is (C29).
    """

    liveness_exists: bool
    suspended: bool = False


OfferOutcome: TypeAlias = OfferStored | OfferAlreadyStored | OfferRefused


@attrs.frozen
class SuspensionStored:
    """The suspension is stored; the run is due, for a worker to park it."""


@attrs.frozen
class SuspensionAlreadyStored:
    """This very suspension was handed in before; it waits to be parked, or is parked already."""


@attrs.frozen
class SuspensionRefused:
    """Not stored; `reason` is a short code."""

    reason: str


SuspendOutcome: TypeAlias = SuspensionStored | SuspensionAlreadyStored | SuspensionRefused


@attrs.frozen(kw_only=True)
class Cancelled:
    """The run is cancelled now; its live attempt, if any, ended with it."""

    had_attempt: bool


@attrs.frozen(kw_only=True)
class NotCancelled:
    """Nothing was written: the run has ended, is unknown (`None`), or the condition failed."""

    status: RunStatus | None


CancelOutcome: TypeAlias = Cancelled | NotCancelled


@attrs.frozen(kw_only=True)
class Unstarted:
    """The condition of a settlement before any attempt (C15.R5, I28).

    `task_id` is `None` for a run without one. `task_over` asks for the task to be over or gone as
    well, as who finds a stranded run does (A30).
    """

    release_id: ReleaseId | None
    task_id: str | None
    task_over: bool = False


class Terminals(Protocol):
    """First write wins, everything that belongs to an end in one commit."""

    async def commit(self, commit: TerminalCommit) -> CommitOutcome:
        """End the run under its fence: terminal, facts in order, cleanup, usage, why, engine task.

        The settled progress facts come first, the terminal fact last (I20). Completes the engine
        task in the same commit under the claim-owner fence.
        """
        ...

    async def offer(
        self, key: AttemptKey, terminal: RunnerTerminal, fence: HeartbeatFence, why: Why
    ) -> OfferOutcome:
        """Store a runner terminal if none is stored and the fence holds; wake its run (C32, C34).

        Only a live attempt of an unfinished run accepts (Q56), and none whose play is suspended:
        nobody speaks for it (C29).
        """
        ...

    async def suspend(self, key: AttemptKey, suspended: Suspended, why: Why) -> SuspendOutcome:
        """Store the suspension that a runner hands in as its end, and wake its run (C29).

        First write wins between this and a terminal. Only a sleep or a wait for an event is one.
        It stays pending until a worker parks the attempt on it, which lets the sandbox be cleaned
        up; until then the attempt takes no heartbeat and no terminal.
        """
        ...

    async def stored(self, key: AttemptKey) -> RunnerTerminal | None:
        """Read the runner terminal stored on an attempt."""
        ...

    async def cancel(self, run_id: RunId, *, by: str, reason: str, why: Why) -> CancelOutcome:
        """End a run as cancelled if not ended: terminal, fact, cleanup, engine (C09, Q37)."""
        ...

    async def cancel_unstarted(
        self, run_id: RunId, condition: Unstarted, *, reason: str, why: Why
    ) -> CancelOutcome:
        """Cancel a run which has no attempt yet, in its first state, on this release and task."""
        ...

    async def status(self, run_id: RunId) -> RunStatus | None:
        """Read the run's status; `None` when the run is unknown."""
        ...
