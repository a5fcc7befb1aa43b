"""When the remains of a dead sandbox are captured (C44)."""

import attrs
import pytest

from deepline.core.crash_diagnostics import sandbox_of, should_capture
from deepline.core.model.result import Failed, RunnerTerminal
from deepline.core.model.sandbox import SandboxRef
from deepline.core.model.suspension import DetachedSuspension
from tests.core.parked import BROKEN, DONE, suspension

CONTAINED = Failed(
    error="runner exited with code 137 without pushing a terminal (crash containment epilogue)"
)
LOST = Failed(error="RUNTIME_RUNNER_LOST: silent")
MODAL = attrs.evolve(suspension(), sandbox_provider="modal")
NAMELESS = attrs.evolve(suspension(), sandbox_id="")


@pytest.mark.parametrize(
    ("result", "on", "captures"),
    [
        pytest.param(CONTAINED, suspension(), True, id="C44-contained"),
        pytest.param(LOST, suspension(), True, id="C44-lost"),
        pytest.param(BROKEN, suspension(), False, id="C44-ordinary-failure"),
        pytest.param(DONE, suspension(), False, id="C44-completed"),
        pytest.param(LOST, None, False, id="C44-no-suspension"),
        pytest.param(LOST, MODAL, False, id="C44-another-provider"),
        pytest.param(LOST, NAMELESS, False, id="C44-no-sandbox"),
    ],
)
def test_should_capture(
    result: RunnerTerminal, on: DetachedSuspension | None, captures: bool
) -> None:
    """A capture needs a runner that died and a sandbox that can be read."""
    assert should_capture(result, on) is captures


def test_providers_are_the_callers_choice() -> None:
    """A deployment whose other provider can be read captures there too."""
    assert should_capture(LOST, MODAL, providers={"modal"})


def test_sandbox_of() -> None:
    """A suspension names its sandbox with the organisation that owns it."""
    assert sandbox_of(suspension()) == SandboxRef(
        provider="daytona", sandbox_id="sb-1", routing_domain="org-a"
    )
    assert sandbox_of(attrs.evolve(suspension(), sandbox_provider="")) is None
