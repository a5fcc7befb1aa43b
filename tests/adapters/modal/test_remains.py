"""What a dead runner left in a sandbox at Modal can be read while the provider keeps it (C44)."""

import attrs
import pytest

from deepline.core.crash_diagnostics import LINES_MAX
from deepline.core.model.sandbox import Stage
from deepline.ports.crash_reader import CrashReader
from deepline.ports.errors import Refused
from deepline.testing.emulators.faults import FaultRule
from deepline.testing.refusals import refused
from tests.adapters.modal.scene import SLEEPS, Scene, until

pytestmark = pytest.mark.processes

DYING = """
import os, sys
for number in range(300):
    print("line", number)
sys.stdout.flush()
print("the last word", file=sys.stderr)
os._exit(3)
"""


async def test_the_exit_and_the_last_lines(scene: Scene) -> None:
    """While the sandbox lingers, and the look changes nothing."""
    sandbox = await scene.started(DYING)
    await scene.inspected(sandbox, lambda found: found.stage is Stage.COMMAND_EXITED)

    assert isinstance(scene.provider, CrashReader)
    remains = await scene.provider.remains(sandbox)

    assert remains is not None
    assert (remains.stage, remains.exit_code) == ("command_exited", 3)
    assert list(remains.lines[-2:]) == ["line 299", "the last word"]
    assert len(remains.lines) == LINES_MAX
    assert await scene.provider.remains(sandbox) == remains


async def test_a_sandbox_that_has_ended(scene: Scene) -> None:
    """Its files are gone with it, but what it printed can be read, and so can its code."""
    sandbox = await scene.started("print('so far', flush=True)\n" + SLEEPS)
    await until(lambda: "so far" in said(scene, sandbox.sandbox_id))
    scene.emulator.run_out_of_memory(sandbox.sandbox_id)
    await until(lambda: scene.running_id(sandbox.sandbox_id) == 0)

    remains = await scene.provider.remains(sandbox)

    assert remains is not None
    assert (remains.stage, remains.exit_code) == ("sandbox_stopped", None)
    assert remains.detail == "the sandbox ended with code 137"
    assert list(remains.lines) == ["so far"]


async def test_what_cannot_be_read(scene: Scene) -> None:
    """A provider that is away says so, and nothing is left of what never was."""
    sandbox = await scene.sandbox()
    await scene.inspected(sandbox, lambda found: found.stage is Stage.NOT_STARTED)
    scene.emulator.fault(FaultRule(calls="SandboxWaitV2", status=14))

    away = await scene.provider.remains(sandbox)
    there = await scene.provider.remains(sandbox)
    missing = await scene.provider.remains(attrs.evolve(sandbox, sandbox_id="sb-none"))

    assert away is not None
    assert away.stage == "sandbox_lookup_failed"
    assert there is not None
    assert (there.stage, list(there.lines)) == ("not_started", [])
    assert missing is None
    alien = attrs.evolve(sandbox, routing_domain="somebody/main")
    await refused(scene.provider.remains(alien), Refused)


def said(scene: Scene, sandbox_id: str) -> str:
    """What the sandbox has printed so far, as the emulator keeps it."""
    return (scene.emulator.state / "sandboxes" / sandbox_id / "stderr").read_text()
