"""The example that waits for somebody's word decides as it says."""

from collections.abc import Callable
from typing import Any

import pytest

from examples import approval


class Ctx:
    """A context of which every pause is over."""

    class ActionInDoubt(Exception):
        """As the real one."""

    def __init__(self, *, approval: object = None, doubt: bool = False) -> None:
        self.done: list[str] = []
        self._approval = approval
        self._doubt = doubt

    def step(self, name: str, function: Callable[[], object]) -> object:
        return function()

    def once(self, name: str, function: Callable[[], object]) -> object:
        if self._doubt:
            raise self.ActionInDoubt("it may have happened")
        self.done.append(name)
        return function()

    def sleep(self, name: str, *, seconds: float) -> None:
        self.done.append(f"{name} {seconds}")

    def wait_for(self, event: str, *, timeout: float) -> object:
        if self._approval is None:
            raise TimeoutError
        return self._approval

    def log(self, text: str, **fields: object) -> None:
        pass


ORDER = {"order": 17, "cents": 4200, "rest_s": 5}


def test_an_approved_order_is_charged() -> None:
    """It rests as long as it is told, and names the invoice and who approved."""
    ctx = Ctx(approval={"by": "ann"})
    result: Any = approval.play(ctx, ORDER)

    assert ctx.done == ["rest 5", "charge order 17"]
    assert result == {"charged": True, "invoice": result["invoice"], "approved_by": "ann"}


@pytest.mark.parametrize(
    ("ctx", "charged"),
    [
        pytest.param(Ctx(), False, id="nobody-approved"),
        pytest.param(Ctx(approval={"by": "ann"}, doubt=True), None, id="in-doubt"),
    ],
)
def test_an_order_that_is_not_charged(ctx: Ctx, charged: bool | None) -> None:
    """Without a word, or with a doubt, nothing is charged, and the result says so."""
    result = approval.play(ctx, ORDER)

    assert result["charged"] is charged
    assert not any(name.startswith("charge") for name in ctx.done)
