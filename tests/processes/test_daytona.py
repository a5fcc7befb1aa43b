"""A worker dies on each side of each of its calls to Daytona; no sandbox is lost (F66, F73, F74).

The provider is an emulated Daytona, which outlives the worker and keeps what its calls did.
"""

import time
from collections.abc import Iterator, Mapping

import attrs
import pytest
import trio

from deepline.adapters.daytona import opened_daytona
from deepline.core.model.identity import RunId
from deepline.core.model.sandbox import Resources, SandboxRef
from deepline.testing.emulators import DaytonaEmulator, FaultRule
from deepline.testing.emulators.daytona import KEY, ORGANISATION
from tests.adapters.daytona.emulation import ALIEN_KEY, operation, settings, started_emulator
from tests.support.fleet import Fleet, fleet_running, new_id, short
from tests.support.provider_deaths import PATIENCE_S, accepted_ends, wait_until_stuck

pytestmark = [pytest.mark.processes, pytest.mark.slow]

CREATE = "POST /api/sandbox"
UPLOAD = "POST /toolbox/.*/files/bulk-upload"
START = "POST /toolbox/.*/process/execute"
DELETE = "DELETE /api/sandbox/.*"
DEATHS: Mapping[str, FaultRule] = {
    "before-a-create": FaultRule(calls=CREATE, hangs=True),
    "after-a-create": FaultRule(calls=CREATE, hangs=True, after_effect=True),
    "before-an-upload": FaultRule(calls=UPLOAD, hangs=True),
    "before-a-start": FaultRule(calls=START, hangs=True),
    "after-a-start": FaultRule(calls=START, hangs=True, after_effect=True),
    "before-a-delete": FaultRule(calls=DELETE, hangs=True),
    "after-a-delete": FaultRule(calls=DELETE, hangs=True, after_effect=True),
}
"""Each stops one run at one side of one call; which run it is does not matter."""


@attrs.frozen
class Survived:
    """What became of one run for each of the deaths, and of sandboxes that were not ours."""

    fleet: Fleet
    emulator: DaytonaEmulator
    run_ids: Mapping[str, RunId]
    others: frozenset[str]


@pytest.fixture(scope="module")
def survived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survived]:
    """Let all of it happen to one worker, and have another finish."""
    with started_emulator(tmp_path_factory.mktemp("daytona")) as emulator:
        providing = {
            "DEEPLINE_PLAY_RUNNER_BACKEND": "daytona",
            "DAYTONA_API_KEY": KEY,
            "DAYTONA_API_URL": emulator.api_url,
            "DAYTONA_ORGANIZATION_ID": ORGANISATION,
        }
        others = frozenset(one.sandbox_id for one in trio.run(sandboxes_of_others, emulator))
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


async def sandboxes_of_others(emulator: DaytonaEmulator) -> list[SandboxRef]:
    """One sandbox of another deployment in our organisation, one of another organisation."""
    made = []
    staging = attrs.evolve(settings(emulator), owner="staging")
    for theirs in (staging, settings(emulator, ALIEN_KEY)):
        async with opened_daytona(theirs) as provider:
            made.append(await provider.create(operation(), Resources()))
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
    while (left := {one.id for one in survived.emulator.sandboxes()}) != survived.others:
        assert time.monotonic() < until, left ^ survived.others
        time.sleep(0.2)


def test_a_create_whose_reply_was_lost_is_not_done_twice(survived: Survived) -> None:
    """No operation has ever had two sandboxes."""
    everything = survived.emulator.sandboxes(alive=False)
    tokens = [one.labels["deepline-operation"] for one in everything]

    assert len(tokens) == len(set(tokens))


def test_sandbox_time_ends_with_the_first_acceptance(survived: Survived) -> None:
    """C51: what Daytona takes to destroy a sandbox is not the customer's to pay."""
    fleet = survived.fleet
    # Whichever runs the two deaths at deletes hit: their deletion may be known by absence alone.
    fewest = len(survived.run_ids) - 2

    # A sandbox is gone a moment before that is written down.
    fleet.truth.wait_for(lambda: len(accepted_ends(fleet)) >= fewest, "deletions to be accepted")
    assert all(accepted_ends(fleet).values())


def test_the_key_is_shown_nowhere(survived: Survived) -> None:
    """No output of any process holds the key."""
    assert [name for name, text in survived.fleet.said().items() if KEY in text] == []
