"""What commands find out about an account at Daytona, against an emulated one."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from deepline.adapters.daytona import opened_daytona
from deepline.cli.doctor.findings import State
from deepline.cli.doctor.machine import provider_findings
from deepline.cli.providers import count_sandboxes
from deepline.cli.settings.worker import read_worker
from deepline.core.environment import BACKEND_VARIABLE
from deepline.core.model.sandbox import Resources
from deepline.testing.emulators import DaytonaEmulator
from deepline.testing.emulators.daytona import KEY
from tests.adapters.daytona.emulation import operation, settings, started_emulator

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaytonaEmulator]:
    """An emulated Daytona."""
    with started_emulator(tmp_path_factory.mktemp("daytona")) as emulator:
        yield emulator


def variables(emulator: DaytonaEmulator, place: Path, key: str = KEY) -> Mapping[str, str]:
    """The environment of a worker with that account."""
    return {
        BACKEND_VARIABLE: "daytona",
        "DAYTONA_API_KEY": key,
        "DAYTONA_API_URL": emulator.api_url,
        "DEEPLINE_HOME": str(place),
        "DEEPLINE_INTERNAL_TOKEN": "token",
        "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL": "https://runs.example",
        "WORKFLOW_RUNTIME_POSTGRES": "postgresql:///nowhere",
    }


async def test_sandboxes_of_a_run_are_counted(emulator: DaytonaEmulator, tmp_path: Path) -> None:
    """The demo's proof counts what the provider lists for its run, and nothing else."""
    wanted = operation()
    async with opened_daytona(settings(emulator)) as provider:
        await provider.create(wanted, Resources())
        await provider.create(operation(), Resources())
    role = read_worker(variables(emulator, tmp_path))

    assert await count_sandboxes(role, wanted.run_id) == 1
    assert await count_sandboxes(role, "another run") == 0


@pytest.mark.parametrize(
    ("key", "state", "said"),
    [
        pytest.param(KEY, State.OK, "daytona answers", id="a-key"),
        pytest.param("stolen-key", State.BROKEN, "does not accept the key", id="a-wrong-key"),
        pytest.param("", State.BROKEN, "no credentials for daytona", id="no-key"),
    ],
)
async def test_the_doctor_asks_the_account(
    emulator: DaytonaEmulator, tmp_path: Path, key: str, state: State, said: str
) -> None:
    """It says whether Daytona knows the key, and does not say the key."""
    (finding,) = await provider_findings(variables(emulator, tmp_path, key))

    assert finding.state is state
    assert said in finding.says
    assert "stolen-key" not in f"{finding.says} {finding.remedy}"
