"""When the remains of a dead sandbox are captured (C44)."""

import attrs
import pytest

from deepline.core.crash_diagnostics import (
    LINE_CHARS_MAX,
    LINES_MAX,
    Remains,
    diagnostic_of,
    sandbox_of,
    should_capture,
)
from deepline.core.model.result import Failed, RunnerTerminal
from deepline.core.model.sandbox import SandboxRef
from deepline.core.model.suspension import DetachedSuspension
from deepline.ports.crash_diagnostics import DIAGNOSTIC_BYTES_MAX
from deepline.ports.wire import check_storable
from tests.core.parked import BROKEN, DONE, suspension

CONTAINED = Failed(
    error="runner exited with code 137 without pushing a terminal (crash containment epilogue)"
)
LOST = Failed(error="RUNTIME_RUNNER_LOST: silent")
MODAL = attrs.evolve(suspension(), sandbox_provider="modal")
OTHER = attrs.evolve(suspension(), sandbox_provider="another")
LOCAL = attrs.evolve(suspension(), sandbox_provider="local")
NAMELESS = attrs.evolve(suspension(), sandbox_id="")


@pytest.mark.parametrize(
    ("result", "on", "captures"),
    [
        pytest.param(CONTAINED, suspension(), True, id="C44-contained"),
        pytest.param(LOST, suspension(), True, id="C44-lost"),
        pytest.param(BROKEN, suspension(), False, id="C44-ordinary-failure"),
        pytest.param(DONE, suspension(), False, id="C44-completed"),
        pytest.param(LOST, None, False, id="C44-no-suspension"),
        pytest.param(LOST, MODAL, True, id="C44-a-modal-sandbox"),
        pytest.param(LOST, OTHER, False, id="C44-another-provider"),
        pytest.param(LOST, LOCAL, True, id="C44-a-local-sandbox"),
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
    assert should_capture(LOST, OTHER, providers={"another"})


def test_sandbox_of() -> None:
    """A suspension names its sandbox with the organisation that owns it."""
    assert sandbox_of(suspension()) == SandboxRef(
        provider="daytona", sandbox_id="sb-1", routing_domain="org-a"
    )
    assert sandbox_of(attrs.evolve(suspension(), sandbox_provider="")) is None


def test_what_is_kept_is_bounded_and_storable_and_holds_no_secret() -> None:
    """The newest lines, each of bearable length, without what has a secret's shape (I46)."""
    remains = Remains(
        stage="command_exited",
        exit_code=137,
        detail="limit exceeded: memory\x00",
        lines=[f"line {number}" for number in range(300)]
        + ["x" * 2_000, "authorization: Bearer abcdefghijkl", "postgresql://me:hunter2@db/x"],
    )

    kept = diagnostic_of(remains)

    assert (kept["stage"], kept["exitCode"], kept["linesLeftOut"]) == ("command_exited", 137, 103)
    assert kept["detail"] == "limit exceeded: memory\ufffd"
    tail = kept["tail"]
    assert isinstance(tail, list)
    assert len(tail) == LINES_MAX
    assert tail[-3] == "x" * LINE_CHARS_MAX + "…"
    assert tail[-2:] == ["authorization: Bearer ***", "postgresql://me:***@db/x"]
    assert check_storable(kept, DIAGNOSTIC_BYTES_MAX) is None


def test_the_largest_that_is_kept_fits() -> None:
    """The store refuses nothing of it, whatever was printed."""
    remains = Remains(stage="x" * 9_999, detail="é" * 9_999, lines=["\ud800é" * 999] * 999)

    assert check_storable(diagnostic_of(remains), DIAGNOSTIC_BYTES_MAX) is None
