"""Exponential backoff (Q02, Q34, Q40)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.backoff import Backoff

SECOND = timedelta(seconds=1)
CHANCE = st.floats(0, 1, exclude_max=True)


@st.composite
def backoffs(draw: st.DrawFn) -> Backoff:
    """Any backoff that may be built, jitter included."""
    base = draw(st.timedeltas(min_value=timedelta(microseconds=1), max_value=timedelta(days=9)))
    longest = draw(st.timedeltas(min_value=base, max_value=timedelta(days=99)))
    factor = draw(st.one_of(st.just(1.0), st.floats(1, 1e300)))
    return Backoff(base=base, longest=longest, factor=factor, jitter=draw(st.floats(0, 1)))


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [
        pytest.param(0, 2, id="Q02-first"),
        pytest.param(1, 4, id="Q02-second"),
        pytest.param(4, 32, id="Q02-fifth"),
        pytest.param(5, 60, id="Q02-longest"),
        pytest.param(10_000_000, 60, id="Q02-far-out"),
        pytest.param(-3, 2, id="less-than-none"),
    ],
)
def test_waits_double_up_to_the_longest(failures: int, seconds: int) -> None:
    """The engine's waits: base 2 s, factor 2, at most 60 s."""
    backoff = Backoff(base=2 * SECOND, longest=60 * SECOND)

    assert backoff.delay(failures) == seconds * SECOND


def test_a_factor_of_one_never_grows() -> None:
    """A steady poll is a backoff too."""
    assert Backoff(base=SECOND, longest=9 * SECOND, factor=1).delay(1_000) == SECOND


def test_chance_takes_away_at_most_the_jitter() -> None:
    """Chance 0 waits in full; chance near 1 waits almost the jitter's share less."""
    backoff = Backoff(base=10 * SECOND, longest=10 * SECOND, jitter=0.5)

    assert backoff.delay(0, 0.0) == 10 * SECOND
    assert backoff.delay(0, 0.5) == 7.5 * SECOND


def test_chance_plays_no_part_unless_asked_for() -> None:
    """Without jitter chance changes nothing; with jitter no chance means the full wait."""
    assert Backoff(base=SECOND, longest=SECOND).delay(0, 0.9) == SECOND
    assert Backoff(base=SECOND, longest=SECOND, jitter=1).delay(0) == SECOND


@given(backoff=backoffs(), failures=st.integers(0, 10**9), chance=CHANCE)
def test_no_wait_is_longer_than_the_longest(backoff: Backoff, failures: int, chance: float) -> None:
    """Every wait is between nothing and the longest, whatever the numbers."""
    assert timedelta(0) <= backoff.delay(failures, chance) <= backoff.longest


@given(backoff=backoffs(), failures=st.integers(0, 5_000))
def test_waits_never_shrink(backoff: Backoff, failures: int) -> None:
    """One failure more never means a shorter wait, chance being equal."""
    assert backoff.delay(failures) <= backoff.delay(failures + 1)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"base": timedelta(0), "longest": SECOND}, id="no-base"),
        pytest.param({"base": 2 * SECOND, "longest": SECOND}, id="longest-below-base"),
        pytest.param({"base": SECOND, "longest": SECOND, "factor": 0.5}, id="shrinking"),
        pytest.param({"base": SECOND, "longest": SECOND, "factor": float("inf")}, id="infinite"),
        pytest.param({"base": SECOND, "longest": SECOND, "factor": float("nan")}, id="no-number"),
        pytest.param({"base": SECOND, "longest": SECOND, "jitter": 1.5}, id="jitter-over-one"),
        pytest.param({"base": SECOND, "longest": SECOND, "jitter": -0.1}, id="jitter-negative"),
    ],
)
def test_what_is_no_backoff_is_refused(arguments: dict[str, timedelta | float]) -> None:
    """A backoff that shrinks or does not wait cannot be built."""
    with pytest.raises(ValueError, match="a backoff needs"):
        Backoff(**arguments)  # type: ignore[arg-type]  # broken on purpose
