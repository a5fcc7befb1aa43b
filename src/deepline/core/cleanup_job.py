"""What one delete of a sandbox means for its cleanup job (C51, Q39, Q40, A25, A26).

A provider's "not found" is judged as our own delete only with a durable acceptance of exactly
this sandbox; without one it is tried again, since the same answer also means "not yours".
"""

import enum
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeAlias

import attrs

from deepline.core.model.json_value import Json

STARTED = "provider_delete_started"
ACCEPTED = "provider_delete_accepted"
PENDING = "provider_delete_pending"
FAILED = "provider_delete_failed"
MISROUTED = "provider_delete_misrouted"
COMPLETED = "provider_delete_completed"

ALARM_AFTER_FAILURES = 20
"""Failures of one job after which an operator should look (Q40); it is tried on all the same."""


class Seen(enum.StrEnum):
    """What a bounded delete came back with, whichever the provider."""

    DELETED = "deleted"
    GONE_WITH_ACCEPTANCE = "gone_with_acceptance"
    NOT_FOUND_UNPROVEN = "not_found_unproven"
    MISROUTED = "misrouted"
    PENDING = "pending"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    NOTHING_FOUND = "nothing_found"


@attrs.frozen(kw_only=True)
class DeleteFacts:
    """One delete: what was seen, with the provider's words, and what was known before it.

    `accepted_before` is when the stored acceptance was given; `accepted_now` says that this call
    was accepted. `routing_domain` is the real owner when misrouted. `owed_for` is how long the
    deletion has been owed, and `unrecorded` that no create of the operation was answered: then one
    may still land. `owner_before` is the organisation that was asked.
    """

    seen: Seen
    failure_count: int
    accepted_before: datetime | None = None
    accepted_now: bool = False
    code: str | None = None
    detail: str | None = None
    routing_domain: str | None = None
    owner_before: str | None = None
    owed_for: timedelta = timedelta(0)
    unrecorded: bool = False


@attrs.frozen(kw_only=True)
class Event:
    """A durable cleanup event to record."""

    kind: str
    fields: Mapping[str, Json]


@attrs.frozen(kw_only=True)
class Done:
    """The sandbox is gone. `disappeared_after` is an upper bound, since reads are paced."""

    events: tuple[Event, ...]
    provider_outcome: Seen
    disappeared_after: timedelta | None


@attrs.frozen(kw_only=True)
class Again:
    """Look again after `delay`, as a failure if `failed`; `routing_domain` routes it anew.

    `forgets`: this sandbox is gone, and what is looked for is another that may have come.
    """

    events: tuple[Event, ...]
    delay: timedelta
    failed: bool
    routing_domain: str | None = None
    forgets: bool = False


CleanupDecision: TypeAlias = Done | Again


@attrs.frozen(kw_only=True)
class Pace:
    """How a job is put off: pending ones are polled, failures back off up to a longest pause.

    `create_may_land` is how long a create that was sent may take to make its sandbox.
    """

    poll: timedelta
    first_backoff: timedelta
    longest_backoff: timedelta
    create_may_land: timedelta


def reads_acceptance(provider: str, cleanup_attempt: int) -> bool:
    """Say whether a stored acceptance can matter: only a job claimed before can have one."""
    return cleanup_attempt > 1 and provider != "modal"


def starts_delete(accepted_before: datetime | None) -> bool:
    """Say whether a started event is due: an accepted delete was started before."""
    return accepted_before is None


def after_delete(facts: DeleteFacts, now: datetime, pace: Pace) -> CleanupDecision:
    """Decide what becomes of the job. Total over every `Seen`."""
    if facts.seen in {Seen.DELETED, Seen.GONE_WITH_ACCEPTANCE}:
        # Deleting one sandbox of an unanswered create frees its name for another try of it.
        return _not_yet_found(facts, now, pace) if facts.unrecorded else _done(facts, now)
    if facts.seen is Seen.MISROUTED:
        return _misrouted(facts, pace)
    if facts.seen is Seen.NOTHING_FOUND:
        return _not_yet_found(facts, now, pace)
    if facts.seen is Seen.PENDING:
        return _pending(facts, pace)
    return _failed(facts, pace)


def _done(facts: DeleteFacts, now: datetime) -> Done:
    after = None
    fields: dict[str, Json] = {"providerOutcome": facts.seen.value}
    if facts.accepted_before is not None:
        after = max(timedelta(0), now - facts.accepted_before)
        fields["disappearedAfterMs"] = after // timedelta(milliseconds=1)
    return Done(
        events=(Event(kind=COMPLETED, fields=fields),),
        provider_outcome=facts.seen,
        disappeared_after=after,
    )


def _misrouted(facts: DeleteFacts, pace: Pace) -> Again:
    """Route the job to its real owner; one that is there already has nobody to delete it."""
    event = Event(kind=MISROUTED, fields={"routingDomain": facts.routing_domain})
    if facts.routing_domain in {None, facts.owner_before}:
        return Again(events=(event,), delay=_backoff(facts, pace), failed=True)
    return Again(
        events=(event,), delay=pace.poll, failed=False, routing_domain=facts.routing_domain
    )


def _not_yet_found(facts: DeleteFacts, now: datetime, pace: Pace) -> CleanupDecision:
    """A create whose answer was lost may land after its run ended; only time proves that none will.

    So the sandbox is looked for until no create can land any more, less and less often (Q24, I44).
    """
    left = pace.create_may_land - facts.owed_for
    if left <= timedelta(0):
        return _done(facts, now)
    event = Event(kind=PENDING, fields={"code": "create_may_land"})
    return Again(
        events=(event,),
        delay=min(left, max(pace.poll, facts.owed_for / 2)),
        failed=False,
        forgets=True,
    )


def _pending(facts: DeleteFacts, pace: Pace) -> Again:
    code = facts.code or "delete_pending"
    first = facts.accepted_now and facts.accepted_before is None
    kind = ACCEPTED if first else PENDING
    fields: dict[str, Json] = {"code": code}
    if first:
        fields = {"routingDomain": facts.routing_domain}
    return Again(events=(Event(kind=kind, fields=fields),), delay=pace.poll, failed=False)


def _failed(facts: DeleteFacts, pace: Pace) -> Again:
    fields: dict[str, Json] = {"code": facts.code or facts.seen.value, "detail": facts.detail}
    return Again(
        events=(Event(kind=FAILED, fields=fields),), delay=_backoff(facts, pace), failed=True
    )


def _backoff(facts: DeleteFacts, pace: Pace) -> timedelta:
    # 2**40 first pauses are beyond any longest pause; the bound keeps the product representable.
    doublings = min(facts.failure_count, 40)
    backoff: timedelta = pace.first_backoff * 2**doublings
    return min(pace.longest_backoff, backoff)
