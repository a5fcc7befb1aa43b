"""Waiting for the created fact (C13, Q33, I51)."""

from datetime import timedelta

import pytest

from deepline.core.created_projection import (
    AwaitCreated,
    CreatedContradiction,
    Proceed,
    after_preparation,
)
from deepline.core.model.identity import RunId

DELAY = timedelta(seconds=5)


@pytest.mark.parametrize(
    ("pending", "signalled", "kind", "rule"),
    [
        pytest.param(False, False, Proceed, "acknowledged", id="C13-acknowledged"),
        pytest.param(False, True, Proceed, "acknowledged", id="C13-woken-and-acknowledged"),
        pytest.param(True, False, AwaitCreated, "pending", id="C13-pending-waits"),
        pytest.param(True, True, CreatedContradiction, "contradiction", id="C13-woken-for-nothing"),
    ],
)
def test_after_preparation(kind: type, rule: str, *, pending: bool, signalled: bool) -> None:
    """A pending fact is waited for, unless its own wake has just come."""
    decision = after_preparation(RunId("run-1"), pending=pending, signalled=signalled, delay=DELAY)

    assert isinstance(decision, kind)
    assert decision.why.rule == f"created_projection.{rule}"
    assert decision.why.evidence == {"pending": pending, "signalled": signalled}


def test_the_wait_is_the_delay_asked_for() -> None:
    """The wait is bounded by the delay that preparation named."""
    decision = after_preparation(RunId("run-1"), pending=True, signalled=False, delay=DELAY)

    assert isinstance(decision, AwaitCreated)
    assert decision.delay == DELAY


def test_the_contradiction_names_the_run() -> None:
    """The error says what is missing, for which run."""
    decision = after_preparation(RunId("run-1"), pending=True, signalled=True, delay=DELAY)

    assert isinstance(decision, CreatedContradiction)
    assert "wake has no durable projection acknowledgement" in decision.message
    assert "run-1" in decision.message
