"""Plays that end badly: one clear terminal each, and the worker is untouched."""

from collections.abc import Mapping

import attrs
import pytest

from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from tests.support.fleet import Fleet, new_id, short

pytestmark = [pytest.mark.processes, pytest.mark.slow]
CEILING_MS = 3_000


@attrs.frozen
class Failure:
    """How people see it: the code of its error, what that says too, words of the explanation."""

    code: str
    says: str
    explained: str


ENDINGS: Mapping[str, Failure | None] = {
    "raises": Failure("PLAY_FAILED", "the card is not there", "PLAY_FAILED"),
    "exits": Failure("PLAY_EXITED", "no more", "PLAY_EXITED"),
    "vanishes": Failure("PLAY_CRASHED", "exited with code 7", "process died without a result"),
    "killed": Failure("PLAY_CRASHED", "SIGKILL", "process died without a result"),
    "prints": None,
    "not_a_number": Failure("RESULT_NOT_STORABLE", "is nan", "RESULT_NOT_STORABLE"),
    "nul": Failure("RESULT_NOT_STORABLE", "NUL", "RESULT_NOT_STORABLE"),
    "half_a_pair": Failure("RESULT_NOT_STORABLE", "surrogate", "RESULT_NOT_STORABLE"),
    "huge": Failure("RESULT_NOT_STORABLE", "300000002 bytes", "RESULT_NOT_STORABLE"),
    "nothing": None,
    "endless": Failure("RUNTIME_LIMIT_EXCEEDED", f"{CEILING_MS} ms", "wall-clock limit"),
}
"""What a play does, and how its run fails for it; `None` where it completes."""


@attrs.frozen(kw_only=True)
class Aftermath:
    """The ended runs by what they did, in the fleet whose one worker served them all."""

    fleet: Fleet
    runs: Mapping[str, RunId]
    worker_pid: int
    said_before: str


@pytest.fixture(scope="module")
def aftermath(shared_fleet: Fleet) -> Aftermath:
    """All of them at once, on one worker."""
    shared_fleet.heal()
    worker = shared_fleet.roles["worker"]
    said_before = worker.said()
    runs = {doing: new_id(doing) for doing in ENDINGS}
    for doing, run_id in runs.items():
        options: dict[str, Json] = {"ceilingMs": CEILING_MS} if doing == "endless" else {}
        shared_fleet.submit_as({run_id: {"do": doing}}, options)
    shared_fleet.truth.wait_ended(list(runs.values()))
    return Aftermath(fleet=shared_fleet, runs=runs, worker_pid=worker.pid, said_before=said_before)


@pytest.mark.parametrize("doing", ENDINGS)
def test_the_end_is_clear(doing: str, aftermath: Aftermath) -> None:
    """One attempt, one terminal; a failure says by its code and in words what happened."""
    fleet, run_id, expected = aftermath.fleet, aftermath.runs[doing], ENDINGS[doing]

    shown = fleet.api.show(run_id)
    explained = fleet.api.explain(run_id)

    result = shown["result"]
    assert isinstance(result, Mapping)
    assert fleet.truth.attempts(run_id) == 1
    assert shown["status"] == result["status"] == ("failed" if expected else "completed"), result
    if expected:
        error = str(result["error"])
        assert error.startswith(f"{expected.code}: "), error
        assert expected.says in error
        assert expected.explained in str(explained["sentence"])


def test_nothing_is_what_a_play_may_return(aftermath: Aftermath) -> None:
    """A play that returns nothing completes with nothing."""
    assert aftermath.fleet.truth.result(aftermath.runs["nothing"])["output"] is None


def test_the_worker_is_untouched(aftermath: Aftermath) -> None:
    """The same process goes on to claim, nothing in it failed, and no sandbox is left."""
    fleet = aftermath.fleet

    [run_id] = fleet.submit(short("still here"))
    fleet.truth.wait_ended([run_id])

    fleet.assert_sound()
    worker = fleet.roles["worker"]
    assert worker.running
    assert worker.pid == aftermath.worker_pid
    assert fleet.truth.result(run_id)["output"] == {"answer": "still here"}
    said = worker.said().removeprefix(aftermath.said_before)
    troubles = ("claim_work_failed", "controller_restarting", "Traceback")
    assert not [line for line in said.splitlines() if any(trouble in line for trouble in troubles)]
