"""Which duties of a controller do not get on, row by row (C43, Q47, F34)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.duty_health import LONGEST_STEP, DutyPace, failing, stuck

EVERY = timedelta(seconds=15)
BOUND = EVERY + LONGEST_STEP
NOTHING = timedelta(0)
MOMENT = timedelta(microseconds=1)
AGES = st.timedeltas(min_value=NOTHING, max_value=timedelta(days=1))


def pace(turned: timedelta, succeeded: timedelta, *, held: bool = True) -> DutyPace:
    """A duty of this process, or of another."""
    return DutyPace(name="sweep", held=held, turned=turned, succeeded=succeeded, every=EVERY)


@pytest.mark.parametrize(
    ("one", "is_stuck", "is_failing"),
    [
        pytest.param(pace(NOTHING, NOTHING), False, False, id="gets-on"),
        pytest.param(pace(BOUND, BOUND), False, False, id="at-its-bound"),
        pytest.param(pace(BOUND + MOMENT, BOUND + MOMENT), True, False, id="hangs"),
        pytest.param(pace(NOTHING, 2 * BOUND), False, False, id="fails-for-a-while"),
        pytest.param(pace(NOTHING, 2 * BOUND + MOMENT), False, True, id="fails-for-long"),
        pytest.param(pace(3 * BOUND, 3 * BOUND), True, True, id="hangs-for-long"),
        pytest.param(pace(3 * BOUND, 3 * BOUND, held=False), False, False, id="is-another-s"),
    ],
)
def test_a_duty_is_judged_by_its_own_bound(one: DutyPace, is_stuck: bool, is_failing: bool) -> None:
    """A loop that turns is not stuck, whatever it gets done."""
    assert stuck([one]) == (("sweep",) if is_stuck else ())
    assert failing([one]) == (("sweep",) if is_failing else ())


@given(turned=AGES, succeeded=AGES)
def test_who_holds_no_duty_is_well(turned: timedelta, succeeded: timedelta) -> None:
    """Whatever became of it here before."""
    assert stuck([pace(turned, succeeded, held=False)]) == ()
    assert failing([pace(turned, succeeded, held=False)]) == ()
