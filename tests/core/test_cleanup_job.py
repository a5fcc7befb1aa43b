"""What one delete means for its cleanup job (C51, Q39, Q40, A25, A26)."""

from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core import cleanup_job as rule
from deepline.core.cleanup_job import Again, DeleteFacts, Done, Pace, Seen

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EARLIER = NOW - timedelta(seconds=7)
PACE = Pace(
    poll=timedelta(seconds=10),
    first_backoff=timedelta(seconds=5),
    longest_backoff=timedelta(minutes=10),
    create_may_land=timedelta(minutes=15),
)
FRESH = DeleteFacts(seen=Seen.DELETED, failure_count=0)


@pytest.mark.parametrize(
    ("provider", "cleanup_attempt", "reads"),
    [
        pytest.param("daytona", 1, False, id="C51.1-first-claim-has-none"),
        pytest.param("daytona", 2, True, id="C51.1-claimed-before"),
        pytest.param("local", 2, True, id="C51.1-local-claimed-before"),
        pytest.param("modal", 2, False, id="C51.1-modal-never"),
    ],
)
def test_who_reads_the_acceptance(provider: str, cleanup_attempt: int, *, reads: bool) -> None:
    """Only a job claimed before can have an acceptance, and Modal's delete needs none."""
    assert rule.reads_acceptance(provider, cleanup_attempt) is reads


@pytest.mark.parametrize(
    ("accepted_before", "starts"),
    [
        pytest.param(None, True, id="C51.2-no-acceptance"),
        pytest.param(EARLIER, False, id="C51.2-accepted-before"),
    ],
)
def test_a_delete_is_started_once(accepted_before: datetime | None, *, starts: bool) -> None:
    """An accepted delete was started before, so it is not started twice."""
    assert rule.starts_delete(accepted_before) is starts


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        pytest.param(FRESH, [rule.COMPLETED], id="C51.4-deleted"),
        pytest.param(
            attrs.evolve(FRESH, seen=Seen.GONE_WITH_ACCEPTANCE, accepted_before=EARLIER),
            [rule.COMPLETED],
            id="C51.4-gone-with-acceptance",
        ),
        pytest.param(
            attrs.evolve(FRESH, seen=Seen.MISROUTED, routing_domain="other"),
            [rule.MISROUTED],
            id="C51.4-misrouted",
        ),
        pytest.param(
            attrs.evolve(FRESH, seen=Seen.PENDING, accepted_now=True),
            [rule.ACCEPTED],
            id="C51.4-pending-accepted-now",
        ),
        pytest.param(
            attrs.evolve(FRESH, seen=Seen.PENDING, accepted_now=True, accepted_before=EARLIER),
            [rule.PENDING],
            id="C51.4-pending-accepted-before",
        ),
        pytest.param(
            attrs.evolve(FRESH, seen=Seen.PENDING), [rule.PENDING], id="C51.4-pending-not-accepted"
        ),
        pytest.param(
            attrs.evolve(FRESH, seen=Seen.FAILED, code="500"), [rule.FAILED], id="C51.4-failed"
        ),
        pytest.param(
            attrs.evolve(FRESH, seen=Seen.NOT_FOUND_UNPROVEN),
            [rule.FAILED],
            id="C51.4-not-found-unproven-I40",
        ),
        pytest.param(attrs.evolve(FRESH, seen=Seen.TIMED_OUT), [rule.FAILED], id="C51.4-timed-out"),
        pytest.param(
            attrs.evolve(FRESH, seen=Seen.NOTHING_FOUND),
            [rule.PENDING],
            id="C48-nothing-found-yet-Q24",
        ),
        pytest.param(
            attrs.evolve(FRESH, seen=Seen.NOTHING_FOUND, owed_for=PACE.create_may_land),
            [rule.COMPLETED],
            id="C48-nothing-can-land-any-more-Q24",
        ),
    ],
)
def test_the_event_of_each_outcome(facts: DeleteFacts, kinds: list[str]) -> None:
    """Each outcome leaves exactly its own durable event."""
    decision = rule.after_delete(facts, NOW, PACE)

    assert [event.kind for event in decision.events] == kinds


def test_a_disappearance_is_dated_from_its_acceptance() -> None:
    """How long the provider took is told from the first acceptance on, never below nothing."""
    facts = attrs.evolve(FRESH, seen=Seen.GONE_WITH_ACCEPTANCE, accepted_before=EARLIER)

    decision = rule.after_delete(facts, NOW, PACE)
    before = rule.after_delete(facts, EARLIER - timedelta(seconds=1), PACE)

    assert isinstance(decision, Done)
    assert decision.disappeared_after == timedelta(seconds=7)
    assert decision.events[0].fields["disappearedAfterMs"] == 7_000
    assert isinstance(before, Done)
    assert before.disappeared_after == timedelta(0)


def test_a_misrouted_job_is_routed_anew() -> None:
    """The real organisation is kept for the next try, which is no failure."""
    facts = attrs.evolve(FRESH, seen=Seen.MISROUTED, routing_domain="other")

    decision = rule.after_delete(facts, NOW, PACE)

    assert decision == Again(
        events=decision.events, delay=PACE.poll, failed=False, routing_domain="other"
    )


@pytest.mark.parametrize("owner", [None, "other"])
def test_a_job_that_has_nowhere_to_go_is_seen(owner: str | None) -> None:
    """A sandbox whose owner was asked already, or is unknown, is a failure that backs off (L06)."""
    facts = attrs.evolve(
        FRESH, seen=Seen.MISROUTED, routing_domain=owner, owner_before="other", failure_count=2
    )

    decision = rule.after_delete(facts, NOW, PACE)

    assert decision == Again(
        events=decision.events, delay=PACE.first_backoff * 4, failed=True, routing_domain=None
    )


@pytest.mark.parametrize(
    ("owed_for", "delay"),
    [
        pytest.param(timedelta(0), PACE.poll, id="at-first-soon"),
        pytest.param(timedelta(minutes=4), timedelta(minutes=2), id="then-less-often"),
        pytest.param(timedelta(minutes=14), timedelta(minutes=1), id="at-last-when-none-can-land"),
    ],
)
def test_a_sandbox_nobody_saw_is_looked_for_again(owed_for: timedelta, delay: timedelta) -> None:
    """Until a create that was sent can no longer land, nothing found proves nothing (Q24, I44)."""
    facts = attrs.evolve(FRESH, seen=Seen.NOTHING_FOUND, owed_for=owed_for)

    decision = rule.after_delete(facts, NOW, PACE)

    assert isinstance(decision, Again)
    assert (decision.delay, decision.failed) == (delay, False)


@pytest.mark.parametrize("seen", [Seen.DELETED, Seen.GONE_WITH_ACCEPTANCE])
def test_the_name_of_an_unanswered_create_is_watched(seen: Seen) -> None:
    """Deleting what came of it frees its name, and another try of it may still land (C48)."""
    facts = attrs.evolve(FRESH, seen=seen, unrecorded=True, owed_for=timedelta(seconds=8))

    decision = rule.after_delete(facts, NOW, PACE)
    later = attrs.evolve(facts, owed_for=PACE.create_may_land)

    assert isinstance(decision, Again)
    assert decision.forgets
    assert isinstance(rule.after_delete(later, NOW, PACE), Done)


def test_the_words_of_a_provider_are_kept() -> None:
    """A pending delete tells its code; one without a code has a name of its own."""
    named = rule.after_delete(attrs.evolve(FRESH, seen=Seen.PENDING, code="busy"), NOW, PACE)
    nameless = rule.after_delete(attrs.evolve(FRESH, seen=Seen.PENDING), NOW, PACE)

    assert named.events[0].fields == {"code": "busy"}
    assert nameless.events[0].fields == {"code": "delete_pending"}


@given(failures=st.integers(0, 10_000))
def test_failures_back_off_and_never_give_up(failures: int) -> None:
    """Pauses grow up to the longest one, and there is always a next try (Q40, L06)."""
    facts = DeleteFacts(seen=Seen.FAILED, failure_count=failures)

    decision = rule.after_delete(facts, NOW, PACE)

    assert isinstance(decision, Again)
    assert decision.failed
    assert decision.delay == min(PACE.longest_backoff, PACE.first_backoff * 2 ** min(failures, 20))


@given(
    seen=st.sampled_from(Seen),
    accepted_before=st.none() | st.just(EARLIER),
    accepted_now=st.booleans(),
    failures=st.integers(0, 50),
    owed_for=st.timedeltas(timedelta(0), timedelta(hours=1)),
)
def test_every_outcome_is_decided(
    seen: Seen,
    accepted_before: datetime | None,
    owed_for: timedelta,
    *,
    accepted_now: bool,
    failures: int,
) -> None:
    """Done exactly when proven gone; at most one acceptance is ever recorded (I40, I41)."""
    facts = DeleteFacts(
        seen=seen,
        failure_count=failures,
        accepted_before=accepted_before,
        accepted_now=accepted_now,
        owed_for=owed_for,
    )

    decision = rule.after_delete(facts, NOW, PACE)

    nothing_lands = seen is Seen.NOTHING_FOUND and owed_for >= PACE.create_may_land
    proven = seen in {Seen.DELETED, Seen.GONE_WITH_ACCEPTANCE} or nothing_lands
    assert isinstance(decision, Done) is proven
    accepted = [event for event in decision.events if event.kind == rule.ACCEPTED]
    assert not accepted or accepted_before is None
