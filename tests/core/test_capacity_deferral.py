"""Deferrals for want of room (C54, Q48, I15)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.capacity_deferral import (
    LONGEST,
    SHORTEST,
    DeferForCapacity,
    RetireForCapacity,
    defer_for_capacity,
    parse_capacity,
)
from deepline.core.failures import CapacityFailure
from deepline.core.model.json_value import Json

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("fresh", "kind", "rule"),
    [
        pytest.param(True, RetireForCapacity, "retired", id="C54-fresh-attempt-is-retired"),
        pytest.param(False, DeferForCapacity, "deferred", id="C54-nothing-else-is-written"),
    ],
)
def test_only_a_fresh_attempt_is_given_up(kind: type, rule: str, *, fresh: bool) -> None:
    """Without an attempt, or with a runner that may live, only the engine run is put off."""
    failure = CapacityFailure(reason="pool is full", retry_after=7 * SECOND, source="pool")

    decision = defer_for_capacity(failure, fresh_attempt=fresh, chance=0.0)

    assert isinstance(decision, kind)
    assert decision.delay == 7 * SECOND
    assert decision.reason == "pool is full"
    assert decision.why.rule == f"capacity_deferral.{rule}"
    assert decision.why.evidence == {"source": "pool", "delay_ms": 7_000}


@pytest.mark.parametrize(
    ("asked", "chance", "delay"),
    [
        pytest.param(None, 0.0, 5 * SECOND, id="Q48-default"),
        pytest.param(None, 0.5, 5.5 * SECOND, id="Q48-jitter"),
        pytest.param(timedelta(0), 0.0, 1 * SECOND, id="Q48-at-least-a-second"),
        pytest.param(-9 * SECOND, 0.0, 1 * SECOND, id="Q48-negative"),
        pytest.param(timedelta(days=9), 0.0, 60 * SECOND, id="Q48-at-most-a-minute"),
    ],
)
def test_the_delay(asked: timedelta | None, chance: float, delay: timedelta) -> None:
    """The time asked for is kept within bounds; chance adds up to a fifth."""
    failure = CapacityFailure(reason="full", retry_after=asked)

    assert defer_for_capacity(failure, fresh_attempt=True, chance=chance).delay == delay


@given(
    asked=st.none() | st.timedeltas(),
    chance=st.floats(0, 1, exclude_max=True),
    fresh=st.booleans(),
)
def test_the_delay_is_bounded(asked: timedelta | None, chance: float, *, fresh: bool) -> None:
    """Whatever is asked for, the wait is at least a second and at most a minute and a fifth."""
    failure = CapacityFailure(reason="full", retry_after=asked)

    decision = defer_for_capacity(failure, fresh_attempt=fresh, chance=chance)

    assert SHORTEST <= decision.delay <= LONGEST * 1.2


@pytest.mark.parametrize(
    ("body", "retry_after"),
    [
        pytest.param({"retryAfterMs": 1_500}, 1.5 * SECOND, id="Q36-time"),
        pytest.param({"retryAfterMs": 250.5}, timedelta(milliseconds=250.5), id="Q36-fraction"),
        pytest.param({"retryAfterMs": 0}, timedelta(0), id="Q36-at-once"),
        pytest.param({"retryAfterMs": 0.5}, timedelta(milliseconds=0.5), id="Q36-below-one"),
        pytest.param({"retryAfterMs": 10**30}, 60 * SECOND, id="Q36-endless"),
        pytest.param({}, None, id="Q36-no-time"),
        pytest.param({"retryAfterMs": "5"}, None, id="Q36-text"),
        pytest.param({"retryAfterMs": True}, None, id="Q36-boolean"),
        pytest.param({"retryAfterMs": -1}, None, id="Q36-negative"),
        pytest.param({"retryAfterMs": float("inf")}, None, id="Q36-infinite"),
        pytest.param({"retryAfterMs": float("nan")}, None, id="Q36-no-number"),
    ],
)
def test_capacity_is_recognised(body: dict[str, Json], retry_after: timedelta | None) -> None:
    """The code makes it a capacity failure; an unusable time is left to the default."""
    failure = parse_capacity({"code": "RUNTIME_SCHEDULER_CAPACITY", **body})

    assert failure is not None
    assert failure.retry_after == retry_after


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(None, id="nothing"),
        pytest.param("RUNTIME_SCHEDULER_CAPACITY", id="text"),
        pytest.param(["RUNTIME_SCHEDULER_CAPACITY"], id="array"),
        pytest.param({"code": "OTHER"}, id="other-code"),
        pytest.param({"retryAfterMs": 5}, id="no-code"),
    ],
)
def test_anything_else_is_no_capacity(body: Json) -> None:
    """Only an object with exactly that code is a capacity failure."""
    assert parse_capacity(body) is None
