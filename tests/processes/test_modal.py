"""A worker dies on each side of each of its calls to Modal; no sandbox is lost (F66, F73, F74).

The provider is an emulated Modal, which outlives the worker and keeps what its calls did.
"""

import time
from collections.abc import Iterator, Mapping

import attrs
import pytest
import trio

from deepline.core.model.identity import RunId
from deepline.core.model.sandbox import Resources
from deepline.testing.emulators.faults import FaultRule
from deepline.testing.emulators.modal import ModalEmulator, modal_emulator
from tests.adapters.modal.scene import TOKENS, account, new_operation, provider_of
from tests.support.fleet import Fleet, fleet_running, new_id, short
from tests.support.provider_deaths import PATIENCE_S, accepted_ends, wait_until_stuck

pytestmark = [pytest.mark.processes, pytest.mark.slow]

NAME = "SandboxGetFromNameV2"
CREATE = "SandboxCreateV2"
WRITE = "TaskExecStdinWriteStream"
DELETE = "SandboxTerminateV2"
DEATHS: Mapping[str, FaultRule] = {
    "before-a-look-up": FaultRule(calls=NAME, hangs=True),
    "before-a-create": FaultRule(calls=CREATE, hangs=True),
    "after-a-create": FaultRule(calls=CREATE, hangs=True, after_effect=True),
    "before-a-write": FaultRule(calls=WRITE, hangs=True),
    "after-a-write": FaultRule(calls=WRITE, hangs=True, after_effect=True),
    "before-a-delete": FaultRule(calls=DELETE, hangs=True),
    "after-a-delete": FaultRule(calls=DELETE, hangs=True, after_effect=True),
}
"""Each stops one run at one side of one call; which run it is does not matter."""


@attrs.frozen
class Survived:
    """What became of one run for each of the deaths, and of sandboxes that were not ours."""

    fleet: Fleet
    emulator: ModalEmulator
    run_ids: Mapping[str, RunId]
    others: frozenset[str]


@pytest.fixture(scope="module")
def survived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survived]:
    """Let all of it happen to one worker, and have another finish."""
    token_id, token_secret, _workspace = TOKENS[0]
    with modal_emulator(tmp_path_factory.mktemp("modal"), TOKENS) as emulator:
        providing = {
            "DEEPLINE_PLAY_RUNNER_BACKEND": "modal",
            "MODAL_TOKEN_ID": token_id,
            "MODAL_TOKEN_SECRET": token_secret,
            "MODAL_SERVER_URL": emulator.url,
        }
        others = frozenset(trio.run(sandboxes_of_others, emulator))
        with fleet_running(providing) as fleet:
            run_ids = {name: new_id(name) for name in DEATHS}
            for rule in DEATHS.values():
                emulator.fault(rule)
            fleet.submit_as({run_id: short(name) for name, run_id in run_ids.items()})
            wait_until_stuck(emulator)
            fleet.roles["worker"].kill()
            emulator.clear_faults()
            fleet.start("worker")
            fleet.truth.wait_ended(list(run_ids.values()))
            fleet.assert_sound()
            yield Survived(fleet, emulator, run_ids, others)


async def sandboxes_of_others(emulator: ModalEmulator) -> list[str]:
    """One sandbox of another deployment in our workspace, one of another workspace."""
    made = []
    for theirs in (account(emulator, owner="staging", app="staging"), account(emulator, 1)):
        async with provider_of(theirs) as provider:
            made.append((await provider.create(new_operation(), Resources())).sandbox_id)
    return made


@pytest.mark.parametrize("name", DEATHS)
def test_every_run_ends_with_its_own_result(name: str, survived: Survived) -> None:
    """Whichever call its worker died at, its play started once and its result is its own."""
    fleet, run_id = survived.fleet, survived.run_ids[name]

    assert fleet.truth.result(run_id)["output"] == {"answer": name}
    assert fleet.witness.words(run_id) == {"started": 1}


def test_no_sandbox_is_lost(survived: Survived) -> None:
    """Every sandbox that was ever ours is gone, and nobody else's was touched."""
    until = time.monotonic() + PATIENCE_S
    while (left := {one.sandbox_id for one in survived.emulator.sandboxes()}) != survived.others:
        assert time.monotonic() < until, left ^ survived.others
        time.sleep(0.2)


def test_a_create_whose_reply_was_lost_is_not_done_twice(survived: Survived) -> None:
    """No operation has ever had two sandboxes."""
    everything = survived.emulator.sandboxes(alive=False)
    tokens = [one.tags["deepline-op"] for one in everything]

    assert len(tokens) == len(set(tokens)) > len(DEATHS)


def test_sandbox_time_ends_with_the_first_acceptance(survived: Survived) -> None:
    """C51: what Modal takes to end a sandbox is not the customer's to pay."""
    ends = accepted_ends(survived.fleet)

    assert ends
    assert all(ends.values())


def test_the_secret_is_shown_nowhere(survived: Survived) -> None:
    """No output of any process holds the token's secret."""
    said = survived.fleet.said()

    assert [name for name, text in said.items() if TOKENS[0][1] in text] == []
