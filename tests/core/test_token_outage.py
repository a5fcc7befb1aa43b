"""How long a token outage is waited out (C17, C18, A3, I16, I18)."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.token_outage import (
    OutageDeferred,
    OutageExhausted,
    carried_outage_start,
    outage_of_detached_wake,
    outage_of_fresh_attempt,
)
from tests.core.every_failure import NOW, instants

SECOND = timedelta(seconds=1)
BOUND = timedelta(minutes=10)
MICROSECOND = timedelta(microseconds=1)
LENGTHS = st.timedeltas(min_value=timedelta(days=-1), max_value=timedelta(days=1))


@pytest.mark.parametrize(
    ("started", "deferred"),
    [
        pytest.param(None, True, id="C17-outage-starts-now"),
        pytest.param(NOW, True, id="C17-started-now"),
        pytest.param(NOW - BOUND + MICROSECOND, True, id="C17-just-inside"),
        pytest.param(NOW - BOUND, False, id="C17-at-the-bound"),
        pytest.param(NOW - 2 * BOUND, False, id="C17-beyond"),
        pytest.param(NOW + BOUND, True, id="C17-clock-stepped-back"),
    ],
)
def test_fresh_attempt(started: datetime | None, *, deferred: bool) -> None:
    """An outage is waited out while it is younger than ten minutes, carrying its start."""
    decision = outage_of_fresh_attempt(NOW, started, longest=BOUND, delay=5 * SECOND)

    assert isinstance(decision, OutageDeferred if deferred else OutageExhausted)
    assert decision.outage_started_at == (started or NOW)
    assert decision.deadline is None
    if isinstance(decision, OutageDeferred):
        assert decision.delay == 5 * SECOND
        assert decision.why.rule == "token_outage.deferred"
    else:
        assert decision.why.rule == "token_outage.bound_exhausted"
        assert decision.why.evidence["longest_ms"] == 600_000


@pytest.mark.parametrize(
    ("retired_for_outage", "carried"),
    [
        pytest.param(True, NOW, id="Q31-same-outage"),
        pytest.param(False, None, id="Q31-other-reason-breaks-the-chain"),
    ],
)
def test_the_chain(carried: datetime | None, *, retired_for_outage: bool) -> None:
    """The start goes on only from an attempt that was retired for this outage."""
    assert carried_outage_start(NOW, retired_for_outage=retired_for_outage) == carried


def test_the_chain_has_to_start_somewhere() -> None:
    """A predecessor without a start has none to hand on."""
    assert carried_outage_start(None, retired_for_outage=True) is None


@pytest.mark.parametrize(
    ("remaining", "seconds"),
    [
        pytest.param(timedelta(hours=1), 5, id="C18-far-ceiling"),
        pytest.param(5 * SECOND + MICROSECOND, 5, id="C18-just-over-five"),
        pytest.param(5 * SECOND, 5, id="C18-five"),
        pytest.param(4 * SECOND + MICROSECOND, 5, id="C18-rounded-up"),
        pytest.param(2 * SECOND, 2, id="C18-two"),
        pytest.param(SECOND, 1, id="C18-one"),
        pytest.param(MICROSECOND, 1, id="C18-nearly-there"),
    ],
)
def test_detached_wake_before_its_ceiling(remaining: timedelta, seconds: int) -> None:
    """The wait is the time left in whole seconds, between 1 and 5."""
    decision = outage_of_detached_wake(NOW, NOW + remaining, longest_delay=5 * SECOND)

    assert isinstance(decision, OutageDeferred)
    assert decision.delay == seconds * SECOND
    assert decision.deadline == NOW + remaining
    assert decision.outage_started_at is None
    assert decision.why.rule == "token_outage.detached_deferred"


@pytest.mark.parametrize(
    ("ceiling_at", "rule"),
    [
        pytest.param(NOW, "detached_ceiling_reached", id="C18-at-the-ceiling"),
        pytest.param(NOW - BOUND, "detached_ceiling_reached", id="C18-past-the-ceiling"),
        pytest.param(None, "detached_without_deadline", id="C18-malformed-suspension"),
    ],
)
def test_detached_wake_without_time_left(ceiling_at: datetime | None, rule: str) -> None:
    """At its ceiling, or without a readable one, a wake waits no more."""
    decision = outage_of_detached_wake(NOW, ceiling_at, longest_delay=5 * SECOND)

    assert isinstance(decision, OutageExhausted)
    assert decision.deadline == ceiling_at
    assert decision.outage_started_at is None
    assert decision.why.rule == f"token_outage.{rule}"


@given(now=instants, started=st.none() | instants, longest=LENGTHS)
def test_a_fresh_outage_is_bounded_by_wall_clock(
    now: datetime, started: datetime | None, longest: timedelta
) -> None:
    """It defers exactly while now - start is below the bound, and never moves the start."""
    decision = outage_of_fresh_attempt(now, started, longest=longest, delay=5 * SECOND)

    start = now if started is None else started
    assert decision.outage_started_at == start
    assert isinstance(decision, OutageDeferred) is (now - start < longest)


@given(started=instants, first=LENGTHS, later=LENGTHS)
def test_an_exhausted_outage_stays_exhausted(
    started: datetime, first: timedelta, later: timedelta
) -> None:
    """Along one chain, time only ever turns a deferral into exhaustion."""
    early, late = sorted((started + first, started + later))

    before = outage_of_fresh_attempt(early, started, longest=BOUND, delay=SECOND)
    after = outage_of_fresh_attempt(late, started, longest=BOUND, delay=SECOND)

    assert not (isinstance(before, OutageExhausted) and isinstance(after, OutageDeferred))


@given(now=instants, remaining=LENGTHS, known=st.booleans())
def test_a_detached_wait_keeps_to_its_ceiling(
    now: datetime, remaining: timedelta, *, known: bool
) -> None:
    """The delay is 1 to 5 whole seconds and ends within a second of the ceiling (I18)."""
    ceiling_at = now + remaining if known else None

    decision = outage_of_detached_wake(now, ceiling_at, longest_delay=5 * SECOND)

    assert isinstance(decision, OutageDeferred) is (ceiling_at is not None and now < ceiling_at)
    if isinstance(decision, OutageDeferred):
        assert ceiling_at is not None
        assert SECOND <= decision.delay <= 5 * SECOND
        assert decision.delay % SECOND == timedelta(0)
        assert now + decision.delay < ceiling_at + SECOND


@given(
    now=instants,
    remaining=st.timedeltas(min_value=MICROSECOND, max_value=timedelta(days=1)),
    sooner=st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=1)),
)
def test_a_nearer_ceiling_is_never_waited_for_longer(
    now: datetime, remaining: timedelta, sooner: timedelta
) -> None:
    """As the ceiling comes nearer, the delay only shrinks, until none is left."""
    far = outage_of_detached_wake(now, now + remaining, longest_delay=5 * SECOND)
    near = outage_of_detached_wake(now, now + remaining - sooner, longest_delay=5 * SECOND)

    assert isinstance(far, OutageDeferred)
    assert isinstance(near, OutageExhausted) or near.delay <= far.delay
