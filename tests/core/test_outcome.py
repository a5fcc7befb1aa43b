"""What of a result may stand in a reason (C21, C44, I46)."""

import pytest

from deepline.core.model.result import Completed, Failed
from deepline.core.outcome import (
    error_code,
    is_crash_contained,
    is_runner_lost,
    outcome_evidence,
)

CONTAINED = (
    "RUNNER_CRASHED: runner exited with code 137 without pushing a terminal "
    "(crash containment epilogue)"
)


def test_a_completed_result_tells_its_status_alone() -> None:
    """The output of a play is no evidence."""
    assert outcome_evidence(Completed(output={"secret": 1})) == {"status": "completed"}


def test_a_failure_tells_its_code_and_not_its_text() -> None:
    """The text after the code may hold what the play knows and stays out."""
    evidence = outcome_evidence(Failed(error="PLAY_FAILED: token sk-1 refused"))

    assert evidence == {"status": "failed", "error_code": "PLAY_FAILED", "crash_contained": False}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param("RUNTIME_RUNNER_LOST: gone", "RUNTIME_RUNNER_LOST", id="code"),
        pytest.param("ValueError: no", None, id="a-class-is-no-code"),
        pytest.param("no code here", None, id="none"),
        pytest.param(f"{'A' * 81}: long", None, id="too-long"),
    ],
)
def test_error_code(error: str, code: str | None) -> None:
    """A code is capitals, digits and underscores before the first colon."""
    assert error_code(error) == code


@pytest.mark.parametrize(
    ("error", "contained"),
    [
        pytest.param(CONTAINED, True, id="C44-contained"),
        pytest.param(
            "Runner exited with exit code 1,\nwithout pushing a terminal; "
            "(Crash containment epilogue)",
            True,
            id="C44-contained-other-words",
        ),
        pytest.param("runner exited with code 1", False, id="C44-exit-alone"),
        pytest.param("(crash containment epilogue)", False, id="C44-epilogue-alone"),
    ],
)
def test_crash_containment(error: str, contained: bool) -> None:
    """Containment is recognised by exit, missing terminal and epilogue together."""
    assert is_crash_contained(error) is contained


def test_runner_lost_anywhere_in_any_case() -> None:
    """A wrapped lost verdict is still one (C44)."""
    assert is_runner_lost("wrapped: runtime_runner_lost: silent")
    assert not is_runner_lost("the runner was lost")
