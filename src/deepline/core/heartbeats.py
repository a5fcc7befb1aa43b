"""What a runner may push: heartbeats and one end, accepted by rule (C29, C34, Q51, Q56, I02, I05).

A runner's end is a terminal, or a suspension of its play; the first of them stays. From then on
nobody speaks for the attempt until another runner is bound to it.

Written as pure rules so that every store gives the same answer to the same facts.
"""

from datetime import datetime
from typing import TypeAlias

import attrs

from deepline.core.instants import iso
from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.heartbeat import (
    ExpectHeartbeat,
    HeartbeatFence,
    HeartbeatIdentity,
)
from deepline.core.model.run import RunStatus
from deepline.core.model.suspension import EventSuspension, SleepSuspension, Suspension
from deepline.core.model.why import Why

SUSPENDED = "suspended"
"""Code of a refusal because the play is suspended."""
LIVE = frozenset({AttemptStatus.RUNNING, AttemptStatus.WAITING})


@attrs.frozen(kw_only=True)
class AttemptState:
    """An attempt and its run, as the store sees them under its lock.

    `waits_for` is the attempt's stored suspension, `pending` the one its runner handed in.
    """

    attempt: AttemptStatus
    run: RunStatus
    terminal_stored: bool
    heartbeat: HeartbeatIdentity
    waits_for: Suspension | None = None
    pending: Suspension | None = None

    @property
    def is_live(self) -> bool:
        """True while the attempt is running or waiting and its run has not ended."""
        return self.attempt in LIVE and not self.run.is_terminal

    @property
    def is_suspended(self) -> bool:
        """True when the play is suspended, parked or about to be: no runner speaks for it."""
        return self.pending is not None or isinstance(self.waits_for, _PAUSES)


@attrs.frozen
class Accept:
    """Write it."""

    why: Why


@attrs.frozen
class AlreadyStored:
    """A terminal was first; it stays, whatever this one says."""

    why: Why


@attrs.frozen(kw_only=True)
class Refuse:
    """Write nothing. `code` tells the runner why; `attempt_exists` tells an arbitration (C32)."""

    code: str
    attempt_exists: bool
    why: Why


_PAUSES = (SleepSuspension, EventSuspension)

BeatAnswer: TypeAlias = Accept | Refuse
OfferAnswer: TypeAlias = Accept | AlreadyStored | Refuse


def judge_beat(state: AttemptState | None) -> BeatAnswer:
    """A heartbeat counts only on the live attempt, and only while no terminal is stored."""
    if state is None:
        return _refuse("beat", "unknown_attempt", exists=False)
    if not state.is_live:
        return _refuse("beat", "attempt_over", exists=True)
    if state.terminal_stored:
        return _refuse("beat", "terminal_stored", exists=True)
    if state.is_suspended:
        return _refuse("beat", SUSPENDED, exists=True)
    return Accept(Why("beat.accepted"))


def judge_offer(state: AttemptState | None, fence: HeartbeatFence) -> OfferAnswer:
    """A terminal is stored by the first writer on a live attempt whose heartbeat is as expected.

    A terminal that is there already is the answer even when the attempt is over, so that a
    runner which pushes again learns that it was heard.
    """
    if state is None:
        return _refuse("offer", "attempt_unknown", exists=False)
    if state.terminal_stored:
        return AlreadyStored(Why("offer.already_stored"))
    if not state.is_live:
        return _refuse("offer", "attempt_over", exists=True)
    if state.is_suspended:
        return _refuse("offer", SUSPENDED, exists=True)
    if isinstance(fence, ExpectHeartbeat) and fence.identity != state.heartbeat:
        return _refuse("offer", "heartbeat_moved", exists=True)
    return Accept(Why("offer.accepted"))


def judge_suspension(state: AttemptState | None, suspension: Suspension) -> OfferAnswer:
    """A suspension is handed in once, by the runner of a live attempt without a terminal.

    One that waits to be parked, or is parked already, is the answer to a runner that pushes again.
    """
    if state is None:
        return _refuse("suspend", "attempt_unknown", exists=False)
    if not isinstance(suspension, _PAUSES):
        return _refuse("suspend", "not_a_pause", exists=True)
    if not state.is_live:
        return _refuse("suspend", "attempt_over", exists=True)
    if state.terminal_stored:
        return _refuse("suspend", "terminal_stored", exists=True)
    if state.is_suspended:
        if suspension in (state.pending, state.waits_for):
            return AlreadyStored(Why("suspend.already_stored"))
        return _refuse("suspend", SUSPENDED, exists=True)
    return Accept(Why("suspend.accepted"))


def identity(at: datetime, sequence: int) -> HeartbeatIdentity:
    """Name the `sequence`-th accepted heartbeat; two in one microsecond still differ."""
    return HeartbeatIdentity(f"{iso(at)}#{sequence}")


def _refuse(what: str, code: str, *, exists: bool) -> Refuse:
    return Refuse(code=code, attempt_exists=exists, why=Why(f"{what}.{code}"))
