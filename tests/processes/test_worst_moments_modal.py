"""A worker dies between two of its steps at a provider; no sandbox of its run is ever lost (F66).

The provider is the emulator of Modal, where a sandbox is not a thing of the worker's machine: what
nobody deletes stays. The steps are those from the create to the proof that it is gone.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest
import trio

from deepline.core.model.identity import RunId
from deepline.core.model.sandbox import Resources
from deepline.testing.emulators.modal import ACCOUNT, ModalEmulator, modal_emulator
from tests.adapters.modal.scene import account, new_operation, provider_of
from tests.processes.test_worst_moments import Death, die
from tests.support.fleet import Fleet, new_id, short
from tests.support.moments import Moment, held

pytestmark = [pytest.mark.processes, pytest.mark.slow]

THEIRS = ("ak-theirs", "as-theirs", "theirs")
DEATHS: Mapping[str, Death] = {
    "created-but-not-bound": Death(Moment.BIND, done=False, attempts=2),
    "bound-but-not-started": Death(Moment.BIND, done=True),
    "started-but-not-parked": Death(Moment.PARK, done=False),
    "ended-but-nothing-deleted": Death(Moment.DELETE, done=False),
    "deleted-but-nobody-wrote-it-down": Death(Moment.DELETED, done=False),
}


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModalEmulator]:
    """An emulator with a sandbox in it that is somebody else's."""
    with modal_emulator(tmp_path_factory.mktemp("modal"), [ACCOUNT, THEIRS]) as emulator:
        trio.run(_make_alien, emulator)
        yield emulator


async def _make_alien(emulator: ModalEmulator) -> None:
    async with provider_of(account(emulator, 1)) as theirs:
        await theirs.create(new_operation(), Resources())


@pytest.fixture(scope="module")
def run_ids(shared_fleet: Fleet, emulator: ModalEmulator) -> Mapping[str, RunId]:
    """Let all of it happen, each on a lane of its own, and wait until all is quiet."""
    fleet, workers = shared_fleet, [worker_of(name) for name in DEATHS]
    fleet.heal()
    run_ids = {name: new_id(name) for name in DEATHS}
    fleet.releases |= {worker_of(name): f"modal-{name}" for name in DEATHS}
    fleet.start(*workers, extra=settings(emulator))
    with ExitStack() as stack:
        moments = {
            name: stack.enter_context(held(fleet.truth, fleet.dsn, death.moment, run_ids[name]))
            for name, death in DEATHS.items()
        }
        for name, run_id in run_ids.items():
            asked = {"absurdReleaseId": f"modal-{name}", "runtimeBackend": "modal"}
            fleet.submit_as({run_id: short(name)}, asked)
        for name, death in DEATHS.items():
            die(fleet, worker_of(name), moments[name], done=death.done)
    fleet.start(*workers, extra=settings(emulator))
    fleet.truth.wait_ended(list(run_ids.values()))
    fleet.assert_sound()
    return run_ids


@pytest.mark.parametrize("name", DEATHS)
def test_a_worker_dies_between_two_steps(
    name: str, run_ids: Mapping[str, RunId], shared_fleet: Fleet
) -> None:
    """The run ends with its result, and its play has started once."""
    fleet, run_id = shared_fleet, run_ids[name]

    assert fleet.truth.result(run_id)["output"] == {"answer": name}
    assert fleet.witness.words(run_id) == {"started": 1}
    assert fleet.truth.attempts(run_id) == DEATHS[name].attempts


def test_every_sandbox_is_found_and_deleted(
    run_ids: Mapping[str, RunId], emulator: ModalEmulator, shared_fleet: Fleet
) -> None:
    """What was ever made for a run is gone, and what is somebody else's is not touched."""
    made = emulator.sandboxes(alive=False)
    ours = [one for one in made if one.workspace == ACCOUNT[2]]

    assert {one.tags["deepline-run"] for one in ours} == set(run_ids.values())
    assert [one for one in ours if one.how is None] == []
    assert [one.workspace for one in emulator.sandboxes()] == [THEIRS[2]]


def worker_of(name: str) -> str:
    """The worker of a case."""
    return f"worker-modal-{name}"


def settings(emulator: ModalEmulator) -> Mapping[str, str]:
    """What makes a worker run plays in the emulator."""
    return {
        "DEEPLINE_PLAY_RUNNER_BACKEND": "modal",
        "MODAL_TOKEN_ID": ACCOUNT[0],
        "MODAL_TOKEN_SECRET": ACCOUNT[1],
        "MODAL_SERVER_URL": emulator.url,
    }
