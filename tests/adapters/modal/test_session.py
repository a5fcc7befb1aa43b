"""The vendor's client: loaded when it is needed, opened again when it was closed."""

import subprocess
import sys

import pytest

from deepline.adapters.modal.client import Opened
from deepline.core.model.sandbox import Stage
from tests.adapters.modal.scene import Scene

pytestmark = pytest.mark.processes

LIGHT = """
import sys
import deepline.adapters.modal, deepline.cli.roles.worker, deepline.testing.emulators.modal
loaded = {"modal", "modal_proto", "grpclib", "google", "aiohttp"} & set(sys.modules)
sys.exit(f"loaded: {loaded}" if loaded else 0)
"""


def test_nothing_of_the_vendors_is_loaded_before_it_is_needed() -> None:
    """A worker with another provider pays nothing for this one."""
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


async def test_a_client_that_was_closed_is_opened_again(scene: Scene) -> None:
    """One call fails, as one that was not done; the next has a client of its own."""
    sandbox = await scene.sandbox()
    opened: Opened = await scene.provider._session.opened()
    await scene.provider._session.raw(opened.client.close.aio)

    failed = await scene.provider.inspect(sandbox, command_id=None)
    found = await scene.inspected(sandbox, lambda one: one.stage is Stage.NOT_STARTED)

    assert failed.stage is Stage.SANDBOX_LOOKUP_FAILED
    assert found.answered
