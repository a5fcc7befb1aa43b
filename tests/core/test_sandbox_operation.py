"""From a reservation to a sandbox: create, look up first, or finish a delete (C46, I43)."""

import pytest

from deepline.core.explain.rules import told
from deepline.core.sandbox_operation import (
    CreateSandbox,
    FinishDelete,
    LookUpFirst,
    OperationState,
    OperationStep,
    PassedOver,
    fell_back,
    is_certain,
    may_fall_back,
    next_step,
)


@pytest.mark.parametrize(
    ("reserved", "step"),
    [
        pytest.param(OperationState.CREATE, CreateSandbox, id="C46-row-1-first"),
        pytest.param(OperationState.RESUME, LookUpFirst, id="C46-row-2-create-may-have-been-sent"),
        pytest.param(OperationState.FINISH_DELETE, FinishDelete, id="C46-row-3-delete-pending"),
    ],
)
def test_what_a_reservation_asks_for(reserved: OperationState, step: type[OperationStep]) -> None:
    """A create is sent only where none can have been sent, or where a look-up found nothing."""
    assert isinstance(next_step(reserved), step)


@pytest.mark.parametrize(
    ("reserved", "any_unknown", "certain"),
    [
        pytest.param(OperationState.CREATE, False, True, id="refused-at-once"),
        pytest.param(OperationState.CREATE, True, False, id="one-try-unanswered"),
        pytest.param(OperationState.RESUME, False, False, id="sent-by-another-before"),
    ],
)
def test_when_nothing_was_certainly_made(
    reserved: OperationState, *, any_unknown: bool, certain: bool
) -> None:
    """Only a first create whose every try was answered certainly made nothing (I44)."""
    assert is_certain(next_step(reserved), any_unknown=any_unknown) is certain


@pytest.mark.parametrize(
    ("certain", "left", "falls_back"),
    [
        pytest.param(True, 1, True, id="another-provider-is-left"),
        pytest.param(True, 0, False, id="none-is-left"),
        pytest.param(False, 1, False, id="I43-something-may-have-been-made"),
    ],
)
def test_when_another_provider_may_be_asked(*, certain: bool, left: int, falls_back: bool) -> None:
    """Nobody else is asked while the first create may still have made a sandbox (C47)."""
    assert may_fall_back(certain=certain, left=left) is falls_back


def test_a_fall_back_is_told() -> None:
    """Who was asked before and why they made nothing is told; an only provider needs no words."""
    first = PassedOver(provider="daytona", reason="connection")
    second = PassedOver(provider="modal", reason="capacity")

    why = fell_back([first, second], "local")

    assert fell_back([], "local") is None
    assert why is not None
    assert why.rule == "sandbox_operation.fell_back"
    assert why.evidence == {
        "provider": "local",
        "passed_over": "daytona (connection), modal (capacity)",
    }
    assert "passed over daytona (connection)" in told(why)
