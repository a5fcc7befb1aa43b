"""Three facts and the stage they make: the inspection table, row by row (Q30)."""

import daytona_api_client_async as generated
import pytest

from deepline.adapters.daytona.facts import (
    ASKED,
    Life,
    RunnerFact,
    SandboxFacts,
    Unreachable,
    inspection_of,
)
from deepline.core.model.result import Completed
from deepline.core.model.sandbox import PROVES_GONE, Stage

RESULT = Completed(output=1)


@pytest.mark.parametrize(
    ("state", "stage"),
    [
        pytest.param("creating", Stage.SANDBOX_STARTING, id="creating"),
        pytest.param("starting", Stage.SANDBOX_STARTING, id="starting"),
        pytest.param("restoring", Stage.SANDBOX_STARTING, id="restoring"),
        pytest.param("resuming", Stage.SANDBOX_STARTING, id="resuming"),
        pytest.param("pending_build", Stage.SANDBOX_STARTING, id="pending_build"),
        pytest.param("building_snapshot", Stage.SANDBOX_STARTING, id="building_snapshot"),
        pytest.param("pulling_snapshot", Stage.SANDBOX_STARTING, id="pulling_snapshot"),
        pytest.param("stopped", Stage.SANDBOX_STOPPED, id="stopped"),
        pytest.param("archiving", Stage.SANDBOX_STOPPED, id="archiving"),
        pytest.param("archived", Stage.SANDBOX_STOPPED, id="archived"),
        pytest.param("destroyed", Stage.SANDBOX_DESTROYED, id="destroyed"),
        pytest.param("error", Stage.SANDBOX_FAILED, id="error"),
        pytest.param("build_failed", Stage.SANDBOX_FAILED, id="build_failed"),
        pytest.param("stopping", Stage.UNKNOWN, id="stopping-is-not-stopped"),
        pytest.param("destroying", Stage.UNKNOWN, id="destroying-is-not-destroyed"),
        pytest.param("pausing", Stage.UNKNOWN, id="pausing"),
        pytest.param("paused", Stage.UNKNOWN, id="a-paused-runner-may-go-on"),
        pytest.param("resizing", Stage.UNKNOWN, id="resizing"),
        pytest.param("snapshotting", Stage.UNKNOWN, id="snapshotting"),
        pytest.param("forking", Stage.UNKNOWN, id="forking"),
        pytest.param("unknown", Stage.UNKNOWN, id="unknown"),
        pytest.param("unknown_default_open_api", Stage.UNKNOWN, id="a-state-of-the-future"),
    ],
)
def test_a_state_that_speaks_for_itself(state: str, stage: Stage) -> None:
    """Where the runner cannot be asked the state decides, and a doubtful one decides nothing."""
    assert inspection_of(SandboxFacts(state=state)).stage is stage


def test_every_state_has_a_row() -> None:
    """The table above, and those in which the runner is asked, are all states of the client."""
    (mark,) = test_a_state_that_speaks_for_itself.pytestmark  # type: ignore[attr-defined]

    listed = {row.values[0] for row in mark.args[1]}
    assert listed | ASKED == {state.value for state in generated.SandboxState}


@pytest.mark.parametrize(
    ("life", "stage"),
    [
        pytest.param(Life.NOT_STARTED, Stage.NOT_STARTED, id="not-started"),
        pytest.param(Life.STARTING, Stage.SANDBOX_STARTING, id="starting"),
        pytest.param(Life.RUNNING, Stage.COMMAND_RUNNING, id="running"),
        pytest.param(Life.EXITED, Stage.COMMAND_EXITED, id="exited"),
        pytest.param(Life.LOST, Stage.SESSION_NOT_FOUND, id="lost"),
    ],
)
@pytest.mark.parametrize("result", [None, RESULT], ids=["no-result", "result"])
def test_a_runner_that_was_asked(life: Life, stage: Stage, result: Completed | None) -> None:
    """The runner's life decides the stage; the result comes along and decides nothing."""
    facts = SandboxFacts(state="started", runner=RunnerFact(life=life, exit_code=3), result=result)

    inspection = inspection_of(facts)

    assert (inspection.stage, inspection.exit_code) == (stage, 3)
    assert inspection.result == result


@pytest.mark.parametrize(
    ("settled", "stage"),
    [
        pytest.param(False, Stage.UNKNOWN, id="one-silence"),
        pytest.param(True, Stage.SESSION_NOT_FOUND, id="silence-that-lasts"),
    ],
)
def test_a_daemon_that_does_not_answer(settled: bool, stage: Stage) -> None:
    """Silence is a proof only when it has lasted (F70)."""
    facts = SandboxFacts(state="started", runner=Unreachable(why="502", settled=settled))

    inspection = inspection_of(facts)

    assert inspection.stage is stage
    assert (stage in PROVES_GONE) is settled
    assert "502" in (inspection.detail or "")


def test_a_runner_that_could_not_be_started_says_why() -> None:
    """The reason is in the detail; it has exited, with no code."""
    fact = RunnerFact(life=Life.EXITED, spawn_error="no such interpreter")

    inspection = inspection_of(SandboxFacts(state="started", runner=fact))

    assert (inspection.stage, inspection.exit_code) == (Stage.COMMAND_EXITED, None)
    assert inspection.detail == "not started: no such interpreter"
