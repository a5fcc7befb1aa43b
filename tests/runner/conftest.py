"""A scripted gateway and a place to run plays, for every test of the runner."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.running import Stage, open_stage
from tests.runner.scripted_gateway import ScriptedGateway, open_gateway


@pytest.fixture
def gateway() -> Iterator[ScriptedGateway]:
    """A gateway of the test's own."""
    with open_gateway() as gateway:
        yield gateway


@pytest.fixture
def stage(tmp_path: Path, gateway: ScriptedGateway) -> Iterator[Stage]:
    """Where plays run; what is left running is killed."""
    with open_stage(tmp_path, gateway) as stage:
        yield stage
