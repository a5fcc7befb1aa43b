"""Where a role dies for a test is asked for on purpose, and never in production (C61)."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

from deepline.cli.fault_point import FaultPoint, Moment, arm
from deepline.cli.settings.reading import SettingsRefused
from deepline.cli.settings.worker import read_worker
from tests.cli.commands import ROOT

BASE = {
    "WORKFLOW_RUNTIME_POSTGRES": "postgresql://db/x",
    "DEEPLINE_INTERNAL_TOKEN": "internal-token-of-the-tests",
    "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL": "http://gateway:8400",
    "DEEPLINE_PLAY_RUNNER_BACKEND": "local",
    "DEEPLINE_ALLOW_TEST_FAULTS": "yes",
}
POINT = FaultPoint(port="attempts", method="park", moment=Moment.AFTER, mark=Path("/x/mark"))
DYING = """
import sys
import trio
from pathlib import Path
from deepline.cli.fault_point import FaultPoint, Moment, arm

class Ports:
    class Attempts:
        async def park(self, what):
            print("parked", what, flush=True)
            return what

    attempts = Attempts()

arm(Ports, FaultPoint(
    port="attempts", method="park", moment=Moment(sys.argv[1]), mark=Path(sys.argv[2])
))
print("answered", trio.run(Ports.attempts.park, 7), flush=True)
"""


@attrs.frozen
class Ports:
    """A store with nothing in it."""

    attempts: object = "no port"


def refusal(values: Mapping[str, str]) -> str:
    """Why a worker does not take these settings."""
    with pytest.raises(SettingsRefused) as refused:
        read_worker(values)
    return str(refused.value)


def test_a_role_can_be_told_where_to_die() -> None:
    """The setting names the call, the moment and the file that is left."""
    values = BASE | {"DEEPLINE_TEST_FAULT": "attempts.park after /x/mark"}

    assert read_worker(values).store.fault_point == POINT
    assert str(POINT) == "attempts.park after"
    assert read_worker(BASE).store.fault_point is None


@pytest.mark.parametrize(
    "text", ["attempts.park", "attempts.park now /x", "park after /x", "attempts.park after x"]
)
def test_a_fault_that_is_not_understood_is_refused(text: str) -> None:
    """The refusal says how it must be written."""
    assert "PORT.METHOD before MARK" in refusal(BASE | {"DEEPLINE_TEST_FAULT": text})


def test_production_takes_no_fault() -> None:
    """A production role refuses to start with one, whatever else is allowed."""
    fault = {"DEEPLINE_TEST_FAULT": "attempts.park after /x/mark"}

    assert "no production role" in refusal(BASE | fault | {"DEEPLINE_ENV": "production"})
    assert "ALLOW_TEST_FAULTS" in refusal(BASE | fault | {"DEEPLINE_ALLOW_TEST_FAULTS": "no"})


def test_a_call_that_is_not_there_is_refused() -> None:
    """A fault at a call that nobody could make would test nothing."""
    with pytest.raises(LookupError, match=r"attempts\.park"):
        arm(Ports(), POINT)


@pytest.mark.parametrize(("moment", "said"), [("before", ""), ("after", "parked 7\n")])
def test_the_first_that_comes_there_dies(moment: str, said: str, tmp_path: Path) -> None:
    """It dies on its side of the call; where somebody died before, the call goes on."""
    command = [sys.executable, "-c", DYING, moment, str(tmp_path / "mark")]
    died, lived = (
        subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
        for _ in range(2)
    )

    assert (died.returncode, died.stdout) == (-signal.SIGKILL, said)
    assert (lived.returncode, lived.stdout) == (0, "parked 7\nanswered 7\n")
