"""Parking a suspended run, and what a wake of it means (C29, C30).

A wake is a claim of the same engine run; the attempt's row is all there is to go by. The rules
answer with the next durable step: settle the stored terminal, resume the play, park until an
instant, probe a silent runner again, or arbitrate. Every step carries the checkpoint to store, from
which an older silence proof is always gone: a proof is fresh only in the wake that completed it
(A10).

Nobody remembers for which heartbeat a deadline was computed. The deadline is computed anew from
the latest heartbeat at each wake, and a wake before it parks again: that is the rearm.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias, assert_never

import attrs

from deepline.core import silence
from deepline.core.arbitration import Settle, settle_pushed
from deepline.core.instants import iso
from deepline.core.limits import Limits
from deepline.core.model.attempt import Attempt
from deepline.core.model.checkpoint import Checkpoint, SilenceProof, SilenceWatch
from deepline.core.model.heartbeat import Liveness
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.result import Suspended
from deepline.core.model.suspension import (
    DetachedSuspension,
    EventSuspension,
    SleepSuspension,
    Suspension,
)
from deepline.core.model.why import Why
from deepline.core.verdicts import unreadable_ceiling_verdict

RESUMED = "resumed"
"""Key in a checkpoint's state: what each passed suspension point was answered, by boundary id."""


@attrs.frozen(kw_only=True)
class ParkUntil:
    """Wait until `at`, or until something wakes the run before; no silence is being watched."""

    at: datetime
    checkpoint: Checkpoint
    why: Why


@attrs.frozen(kw_only=True)
class ProbeAt:
    """A heartbeat is overdue: wait until `at` and look again, with this watch stored."""

    at: datetime
    silence: SilenceWatch
    checkpoint: Checkpoint
    why: Why


@attrs.frozen(kw_only=True)
class Resume:
    """Go on with the play from this checkpoint."""

    checkpoint: Checkpoint
    why: Why


@attrs.frozen(kw_only=True)
class Arbitrate:
    """Decide by `arbitration` how the detached run ended, with this checkpoint's proof, if any."""

    suspension: DetachedSuspension
    checkpoint: Checkpoint
    why: Why


@attrs.frozen(kw_only=True)
class ParkAs:
    """The runner handed in a suspension: park on that one from now on, which holds no sandbox."""

    suspension: Suspension
    park: ParkUntil | ProbeAt

    @property
    def why(self) -> Why:
        """The reason of the park."""
        return self.park.why


Park: TypeAlias = ParkUntil | ProbeAt
AfterWake: TypeAlias = Settle | Resume | ParkUntil | ProbeAt | ParkAs | Arbitrate


def base(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint without what belonged to one wake: the silence proof."""
    if checkpoint.silence_proof is None:
        return checkpoint
    return attrs.evolve(checkpoint, silence_proof=None)


def carry_over(stored: Checkpoint, reported: Checkpoint | None) -> Checkpoint:
    """The checkpoint of a suspension: what the runner reports, over what the attempt had.

    The answers of suspension points passed before are kept though the runner left them out, so
    that a play resumed from its beginning finds every one of them again.
    """
    if reported is None:
        return base(stored)
    answers = {**_answers(stored), **_answers(reported)}
    state = {**reported.state, RESUMED: answers} if answers else reported.state
    return Checkpoint(state=state)


def first_deadline(
    suspension: Suspension, liveness: Liveness | None, now: datetime, limits: Limits
) -> datetime:
    """When to wake at the latest, if nothing wakes the run before.

    A detached runner: when its latest heartbeat goes stale or its ceiling comes. A wait for an
    event without end is looked at now and then, in case its wake was lost.
    """
    match suspension:
        case DetachedSuspension():
            return silence.stale_at(suspension, liveness, limits)
        case SleepSuspension():
            return suspension.wake_at
        case EventSuspension():
            return suspension.expires_at or now + limits.event_recheck
        case _:
            assert_never(suspension)


def park(
    now: datetime,
    suspension: Suspension,
    liveness: Liveness | None,
    checkpoint: Checkpoint,
    limits: Limits,
    *,
    because: Why | None = None,
) -> Park:
    """Park a run that was suspended just now, or suspended again by an arbitration.

    `because` is the arbitration's reason, kept instead of the plain one. A runner whose heartbeat
    is overdue already is watched from here on, so that an unproven silence never spins. A play that
    suspends once more where it was answered before waits once more.
    """
    deadline = first_deadline(suspension, liveness, now, limits)
    clean = _unanswered(base(checkpoint), suspension.boundary_id)
    if isinstance(suspension, DetachedSuspension) and now >= deadline:
        watching = silence.begin(now, suspension, liveness, limits)
        return ProbeAt(
            at=watching.probe_at,
            silence=watching.watch,
            checkpoint=clean,
            why=because or watching.why,
        )
    return ParkUntil(
        at=deadline, checkpoint=clean, why=because or _parked(suspension, deadline, liveness)
    )


def after_wake(
    now: datetime, attempt: Attempt, limits: Limits, signal: JsonObject | None = None
) -> AfterWake:
    """Say what a wake of this waiting attempt leads to.

    `signal` is the payload of the signal claimed for an event suspension, `None` when no row
    matched; the event that woke the run is never trusted (C29.4).
    """
    if attempt.runner_terminal is not None:
        return settle_pushed(attempt.runner_terminal)
    if attempt.pending is not None:
        return _park_as(now, attempt, attempt.pending, limits)
    if is_answered(attempt):
        return _resume_again(attempt)
    match attempt.suspension:
        case DetachedSuspension() as suspension:
            return _after_detached(now, attempt, suspension, limits)
        case SleepSuspension() as suspension:
            return _after_sleep(now, attempt, suspension, limits)
        case EventSuspension() as suspension:
            return _after_event(now, attempt, suspension, limits, signal)
        case None:
            return _after_unreadable(now, attempt, limits)
        case _:
            assert_never(attempt.suspension)


def awaited_event(attempt: Attempt) -> EventSuspension | None:
    """The event whose signal a wake of this attempt should claim; `None` when there is none."""
    over = attempt.runner_terminal is not None or attempt.pending is not None
    if over or is_answered(attempt) or not isinstance(attempt.suspension, EventSuspension):
        return None
    return attempt.suspension


def is_answered(attempt: Attempt) -> bool:
    """Was the play resumed from this suspension before, by a worker that died before its start?

    The answer stands in the checkpoint then, and stays what it was.
    """
    match attempt.suspension:
        case SleepSuspension(boundary_id=boundary_id) | EventSuspension(boundary_id=boundary_id):
            return boundary_id in _answers(attempt.checkpoint)
        case _:
            return False


def _resume_again(attempt: Attempt) -> Resume:
    return Resume(
        checkpoint=base(attempt.checkpoint),
        why=Why("parking.answered_before", {"attempt": attempt.ref.attempt}),
    )


def _park_as(now: datetime, attempt: Attempt, pending: Suspended, limits: Limits) -> ParkAs:
    """Take over what the runner handed in: its suspension, and its checkpoint over the stored."""
    suspension = granted(now, pending.suspension, limits)
    checkpoint = carry_over(attempt.checkpoint, pending.report.checkpoint)
    parked = park(now, suspension, attempt.liveness, checkpoint, limits)
    return ParkAs(suspension=suspension, park=parked)


def granted(now: datetime, asked: Suspension, limits: Limits) -> Suspension:
    """What a play asked for, ending within the bound of pauses by the store's clock.

    The instant comes out of a sandbox, whose clock proves nothing.
    """
    latest = now + limits.pause_max
    match asked:
        case SleepSuspension(wake_at=wake_at) if wake_at > latest:
            return attrs.evolve(asked, wake_at=latest)
        case EventSuspension(expires_at=datetime() as expires_at) if expires_at > latest:
            return attrs.evolve(asked, expires_at=latest)
        case _:
            return asked


def _after_detached(
    now: datetime, attempt: Attempt, suspension: DetachedSuspension, limits: Limits
) -> AfterWake:
    liveness, clean = attempt.liveness, base(attempt.checkpoint)
    if attempt.silence is None or now < first_deadline(suspension, liveness, now, limits):
        return _park_or_arbitrate(now, suspension, liveness, clean, limits)
    found = silence.probe(now, suspension, liveness, attempt.silence, limits)
    match found:
        case silence.Gone(proof=proof, why=why):
            return _arbitrate(suspension, clean, why, proof)
        case silence.Inconclusive(why=why):
            return _arbitrate(suspension, clean, why, None)
        case silence.Silent(watch=watch, probe_at=at, why=why):
            return ProbeAt(at=at, silence=watch, checkpoint=clean, why=why)
        case silence.Responded(why=why):
            return park(now, suspension, liveness, clean, limits, because=why)
        case _:
            assert_never(found)


def _park_or_arbitrate(
    now: datetime,
    suspension: DetachedSuspension,
    liveness: Liveness,
    clean: Checkpoint,
    limits: Limits,
) -> AfterWake:
    if now >= suspension.ceiling_at:
        why = Why("parking.ceiling_reached", {"ceiling_at": iso(suspension.ceiling_at)})
        return _arbitrate(suspension, clean, why, None)
    return park(now, suspension, liveness, clean, limits)


def _arbitrate(
    suspension: DetachedSuspension, clean: Checkpoint, why: Why, proof: SilenceProof | None
) -> Arbitrate:
    checkpoint = attrs.evolve(clean, silence_proof=proof)
    return Arbitrate(suspension=suspension, checkpoint=checkpoint, why=why)


def _after_sleep(
    now: datetime, attempt: Attempt, suspension: SleepSuspension, limits: Limits
) -> AfterWake:
    if now < suspension.wake_at:
        return park(now, suspension, attempt.liveness, attempt.checkpoint, limits)
    return _resume(attempt, suspension.boundary_id, {"kind": "sleep"}, "parking.slept")


def _after_event(
    now: datetime,
    attempt: Attempt,
    suspension: EventSuspension,
    limits: Limits,
    signal: JsonObject | None,
) -> AfterWake:
    answer: dict[str, Json] = {"kind": "integration_event", "eventKey": suspension.event_key}
    if signal is not None:
        answer |= {"payload": signal, "expired": False}
        return _resume(attempt, suspension.boundary_id, answer, "parking.signal_arrived")
    if suspension.expires_at is not None and now >= suspension.expires_at:
        answer |= {"payload": None, "expired": True}
        return _resume(attempt, suspension.boundary_id, answer, "parking.event_expired")
    return park(now, suspension, attempt.liveness, attempt.checkpoint, limits)


def _after_unreadable(now: datetime, attempt: Attempt, limits: Limits) -> AfterWake:
    """Nothing says what is waited for, so only a pushed terminal or the default ceiling can end it.

    A runner may be at work behind a suspension that cannot be read, hence no earlier end.
    """
    ceiling_at = attempt.created_at + limits.detached_ceiling
    evidence: dict[str, Json] = {"ceiling_at": iso(ceiling_at)}
    if now < ceiling_at:
        why = Why("parking.unreadable_suspension", evidence)
        return ParkUntil(at=ceiling_at, checkpoint=base(attempt.checkpoint), why=why)
    return Settle(
        result=unreadable_ceiling_verdict(attempt.created_at, limits.detached_ceiling),
        why=Why("parking.unreadable_ceiling", evidence),
    )


def _resume(attempt: Attempt, boundary_id: str, answer: JsonObject, rule: str) -> Resume:
    checkpoint = base(attempt.checkpoint)
    answers = {**_answers(checkpoint), boundary_id: answer}
    return Resume(
        checkpoint=attrs.evolve(checkpoint, state={**checkpoint.state, RESUMED: answers}),
        why=Why(rule, {"boundary": boundary_id}),
    )


def _answers(checkpoint: Checkpoint) -> JsonObject:
    answers = checkpoint.state.get(RESUMED)
    return answers if isinstance(answers, Mapping) else {}


def _unanswered(checkpoint: Checkpoint, boundary_id: str) -> Checkpoint:
    answers = _answers(checkpoint)
    if boundary_id not in answers:
        return checkpoint
    others = {name: answer for name, answer in answers.items() if name != boundary_id}
    return attrs.evolve(checkpoint, state={**checkpoint.state, RESUMED: others})


def _parked(suspension: Suspension, until: datetime, liveness: Liveness | None) -> Why:
    evidence: dict[str, Json] = {"boundary": suspension.boundary_id, "until": iso(until)}
    match suspension:
        case DetachedSuspension():
            evidence["heartbeat"] = silence.identity_of(liveness).value
            evidence["ceiling_at"] = iso(suspension.ceiling_at)
            return Why("parking.detached", evidence)
        case SleepSuspension():
            return Why("parking.sleep", evidence)
        case EventSuspension():
            evidence["event_key"] = suspension.event_key
            return Why("parking.integration_event", evidence)
        case _:
            assert_never(suspension)
