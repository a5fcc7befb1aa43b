"""The circuit breaker in front of new connections (C59), row by row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.adapters.postgres.breaker import (
    Admitted,
    Breaker,
    BreakerPolicy,
    Closed,
    HalfOpen,
    Open,
    Rejected,
    abandoned,
    admit,
    failed,
    succeeded,
)

POLICY = BreakerPolicy(failures_to_open=3, open_s=2.0)


@pytest.mark.parametrize(
    ("breaker", "now_s", "decision"),
    [
        pytest.param(Closed(), 0.0, Admitted(Closed()), id="C59-closed-admits"),
        pytest.param(Closed(2), 0.0, Admitted(Closed(2)), id="C59-closed-keeps-its-count"),
        pytest.param(Open(5.0), 4.9, Rejected("open"), id="C59-open-rejects"),
        pytest.param(Open(5.0), 5.0, Admitted(HalfOpen()), id="C59-open-admits-a-probe"),
        pytest.param(HalfOpen(), 9.0, Rejected("probe-under-way"), id="C59-one-probe-only"),
    ],
)
def test_admit(breaker: Breaker, now_s: float, decision: Admitted | Rejected) -> None:
    """Who may try a connection."""
    assert admit(breaker, now_s) == decision


@pytest.mark.parametrize(
    ("breaker", "next_breaker"),
    [
        pytest.param(Closed(0), Closed(1), id="C59-first-failure-is-counted"),
        pytest.param(Closed(1), Closed(2), id="C59-so-is-the-second"),
        pytest.param(Closed(2), Open(12.0), id="C59-the-third-opens"),
        pytest.param(HalfOpen(), Open(12.0), id="C59-a-failed-probe-opens-again"),
        pytest.param(Open(11.0), Open(11.0), id="C59-a-late-failure-prolongs-nothing"),
    ],
)
def test_failed(breaker: Breaker, next_breaker: Breaker) -> None:
    """What a failed connection changes."""
    assert failed(breaker, POLICY, now_s=10.0) == next_breaker


@pytest.mark.parametrize(
    ("breaker", "next_breaker"),
    [
        pytest.param(Closed(2), Closed(2), id="C59-cancelled-attempt-counts-as-nothing"),
        pytest.param(HalfOpen(), Open(10.0), id="C59-cancelled-probe-makes-room-at-once"),
        pytest.param(Open(11.0), Open(11.0), id="C59-cancelled-while-open"),
    ],
)
def test_abandoned(breaker: Breaker, next_breaker: Breaker) -> None:
    """What a cancelled attempt changes."""
    assert abandoned(breaker, now_s=10.0) == next_breaker


def test_succeeded() -> None:
    """A success forgets every failure."""
    assert succeeded() == Closed(0)


@given(st.lists(st.sampled_from(["fail", "succeed", "cancel", "wait"]), max_size=60))
def test_never_stuck(steps: list[str]) -> None:
    """Whatever happens, once the open time is over somebody is admitted."""
    breaker: Breaker = Closed()
    now_s = 0.0
    for step in steps:
        now_s += POLICY.open_s if step == "wait" else 0.1
        decision = admit(breaker, now_s)
        if isinstance(decision, Rejected):
            continue
        breaker = decision.breaker
        if step == "fail":
            breaker = failed(breaker, POLICY, now_s)
        elif step == "succeed":
            breaker = succeeded()
        else:
            breaker = abandoned(breaker, now_s)

    assert isinstance(admit(breaker, now_s + POLICY.open_s), Admitted)
