"""One deployment of real processes for all tests here, whole again before each of them.

What happens at a random moment happens at the same one next time: `DEEPLINE_CHAOS_SEED` names
other moments (`make soak-tests` does), and a failing test shows its seed.
"""

import os
import random
from collections.abc import Iterator

import pytest

from tests.support.fleet import Fleet, fleet_running


@pytest.fixture(scope="session")
def shared_fleet() -> Iterator[Fleet]:
    """The deployment; in the end no output of any of its processes may show a secret."""
    with fleet_running() as fleet:
        yield fleet
        assert not fleet.secrets_shown(), "somebody showed a secret"


@pytest.fixture
def fleet(shared_fleet: Fleet) -> Iterator[Fleet]:
    """The deployment with a gateway, a controller and a worker of its usual settings."""
    shared_fleet.heal()
    yield shared_fleet
    shared_fleet.heal()


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Chance that repeats itself."""
    seed = f"{os.environ.get('DEEPLINE_CHAOS_SEED', '1')} {request.node.name}"
    request.node.add_report_section("setup", "chaos seed", seed)
    return random.Random(seed)
