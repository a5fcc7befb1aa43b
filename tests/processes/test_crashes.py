"""Whatever is killed while plays run, each run ends exactly once, with the right answer."""

import csv
import io
import json
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from deepline.core.model.identity import RunId
from tests.support.fleet import Fleet, rows, short
from tests.support.remnants import descendants

pytestmark = [pytest.mark.processes, pytest.mark.slow]
ROWS = 30
TOTAL = sum(number * number for number in range(ROWS) if number != 3)


def crash(name: str) -> Callable[[Fleet, random.Random], None]:
    """Kill a role, and start it again a while later."""

    def crashed(fleet: Fleet, chance: random.Random) -> None:
        fleet.roles[name].kill()
        time.sleep(chance.uniform(0.0, 1.5))
        fleet.start(name)

    return crashed


def crash_database(fleet: Fleet, _: random.Random) -> None:
    """Restart the server as after a power cut of its process."""
    fleet.crash_database()


@pytest.mark.parametrize(
    "hurt",
    [
        pytest.param(crash("worker"), id="worker"),
        pytest.param(crash("gateway"), id="gateway"),
        pytest.param(crash("controller"), id="controller"),
        pytest.param(crash_database, id="database"),
    ],
)
def test_a_crash_at_a_random_moment(
    hurt: Callable[[Fleet, random.Random], None],
    fleet: Fleet,
    chance: random.Random,
    tmp_path: Path,
) -> None:
    """One terminal and one terminal fact each, every row once, no play twice, no sandbox left."""
    run_ids = fleet.submit(*[rows(ROWS, pause_s=0.2)] * 4)
    time.sleep(chance.uniform(0.0, 2.0))
    hurt(fleet, chance)
    fleet.truth.wait_ended(run_ids)

    fleet.assert_sound()
    for run_id in run_ids:
        assert_done_once(fleet, run_id)
        assert rows_of_sheet(fleet, run_id, tmp_path) == list(range(ROWS))


def test_a_sandbox_that_is_killed_is_missed(fleet: Fleet) -> None:
    """A play whose whole sandbox dies ends as lost, with the proof named, and is not repeated."""
    [run_id] = fleet.submit(short(1, pause_s=60))
    fleet.truth.wait_for(lambda: fleet.witness.count(run_id, "started") == 1, "it does not start")
    [sandbox] = fleet.sandboxes()
    supervisor = json.loads((sandbox / "run" / "pid.json").read_text())["pid"]
    for pid in (supervisor, *descendants(supervisor)):
        with suppress(ProcessLookupError):  # it may have died with its parent
            os.kill(pid, signal.SIGKILL)
    fleet.truth.wait_ended([run_id])

    fleet.assert_sound()
    assert fleet.truth.result(run_id)["error"].startswith("RUNTIME_RUNNER_LOST:")
    assert fleet.api.explain(run_id)["situation"] == "lost"
    assert fleet.truth.attempts(run_id) == 1
    assert fleet.witness.words(run_id) == {"started": 1}


def assert_done_once(fleet: Fleet, run_id: RunId) -> None:
    """The run has the right answer, and its play did everything exactly once."""
    result = fleet.truth.result(run_id)
    assert result["status"] == "completed", result
    assert result["output"] == {"total": TOTAL, "failed": 1}
    told = ["started", "ended", *(f"row-{number}" for number in range(ROWS))]
    assert fleet.witness.words(run_id) == dict.fromkeys(told, 1)


def rows_of_sheet(fleet: Fleet, run_id: RunId, directory: Path) -> Sequence[int]:
    """The numbers of the rows in the sheet as people download it."""
    text = fleet.api.download(run_id, "squares", directory / f"{run_id}.csv")
    return [int(row["_row"]) for row in csv.DictReader(io.StringIO(text))]
