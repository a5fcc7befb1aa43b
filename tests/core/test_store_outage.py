"""How long a wake waits for a store that is away (C15, I15, I18)."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.store_outage import StoreAwaited, StoreAwaitedTooLong, outage_of_wake
from tests.core.every_failure import NOW, instants
from tests.core.test_token_outage import LENGTHS, SECOND

RUNNER, PLAIN = 5 * SECOND, 30 * SECOND
MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("ceiling_at", "delay", "rule"),
    [
        pytest.param(None, PLAIN, "wait_deferred", id="C15-no-runner-no-deadline"),
        pytest.param(NOW + 60 * SECOND, RUNNER, "runner_deferred", id="I18-far-ceiling"),
        pytest.param(NOW + 2 * SECOND, 2 * SECOND, "runner_deferred", id="I18-near-ceiling"),
        pytest.param(NOW + MICROSECOND, SECOND, "runner_deferred", id="I18-a-moment-before"),
    ],
)
def test_a_store_that_is_away_is_waited_for(
    ceiling_at: datetime | None, delay: timedelta, rule: str
) -> None:
    """Before the runner's ceiling, or where there is none, the wake is put off without cost."""
    decision = outage_of_wake(NOW, ceiling_at, runner_delay=RUNNER, delay=PLAIN)

    assert isinstance(decision, StoreAwaited)
    assert decision.delay == delay
    assert decision.deadline == ceiling_at
    assert decision.why.rule == f"store_outage.{rule}"


@pytest.mark.parametrize(
    "past",
    [
        pytest.param(timedelta(0), id="at-the-ceiling"),
        pytest.param(PLAIN, id="past-the-ceiling"),
    ],
)
def test_the_ceiling_bounds_the_wait(past: timedelta) -> None:
    """From the runner's ceiling on the error is an ordinary one, so that the run ends."""
    decision = outage_of_wake(NOW, NOW - past, runner_delay=RUNNER, delay=PLAIN)

    assert isinstance(decision, StoreAwaitedTooLong)
    assert decision.deadline == NOW - past
    assert decision.why.rule == "store_outage.ceiling_reached"


@given(now=instants, remaining=LENGTHS)
def test_a_wake_is_put_off_by_seconds(now: datetime, remaining: timedelta) -> None:
    """The delay is 1 to 5 whole seconds and ends within a second of the ceiling (I18)."""
    decision = outage_of_wake(now, now + remaining, runner_delay=RUNNER, delay=PLAIN)

    assert isinstance(decision, StoreAwaited) is (remaining > timedelta(0))
    if isinstance(decision, StoreAwaited):
        assert SECOND <= decision.delay <= RUNNER
        assert decision.delay % SECOND == timedelta(0)
        assert now + decision.delay < now + remaining + SECOND


@given(first=LENGTHS, later=st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=1)))
def test_time_only_ends_the_wait(first: timedelta, later: timedelta) -> None:
    """Whoever waited too long has waited too long for ever after."""
    earlier = outage_of_wake(NOW, NOW + first, runner_delay=RUNNER, delay=PLAIN)
    after = outage_of_wake(NOW + later, NOW + first, runner_delay=RUNNER, delay=PLAIN)

    assert not (isinstance(earlier, StoreAwaitedTooLong) and isinstance(after, StoreAwaited))
