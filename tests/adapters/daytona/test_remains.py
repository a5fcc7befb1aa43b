"""What a dead runner left in a sandbox at Daytona can be read until it is deleted (C44)."""

import pytest

from deepline.core.crash_diagnostics import LINES_MAX
from deepline.core.model.sandbox import Resources
from deepline.ports.crash_reader import CrashReader
from deepline.ports.errors import Refused
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.testing.emulators import DaytonaEmulator
from deepline.testing.emulators.daytona import State
from deepline.testing.refusals import refused
from tests.adapters.daytona.emulation import operation, seen, started

pytestmark = pytest.mark.processes

DYING = """
import os, sys
for number in range(300):
    print("line", number)
print("the last word", file=sys.stderr)
sys.stdout.flush()
os._exit(3)
"""


async def test_the_exit_and_the_last_lines_of_both_streams(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """Neither stream pushes the other out, and the look changes nothing."""
    sandbox = await started(provider, DYING)
    await seen(provider, sandbox)

    assert isinstance(provider, CrashReader)
    remains = await provider.remains(sandbox)

    assert remains is not None
    assert (remains.stage, remains.exit_code) == ("command_exited", 3)
    assert remains.lines[-1] == "stderr: the last word"
    assert remains.lines[-2] == "stdout: line 299"
    assert len(remains.lines) <= LINES_MAX
    assert await provider.remains(sandbox) == remains


async def test_a_daemon_that_is_dead(provider: SandboxProvider, emulator: DaytonaEmulator) -> None:
    """What can be said is said: how it is, and no lines."""
    sandbox = await started(provider, DYING)
    emulator.run_out_of_memory(sandbox.sandbox_id)

    assert isinstance(provider, CrashReader)
    remains = await provider.remains(sandbox)

    assert remains is not None
    assert (remains.stage, list(remains.lines)) == ("unknown", [])
    assert "502" in (remains.detail or "")


async def test_nothing_is_left(provider: SandboxProvider, emulator: DaytonaEmulator) -> None:
    """A sandbox in which nothing ran left no line; one that is gone left nothing."""
    sandbox = await provider.create(operation(), Resources())

    assert isinstance(provider, CrashReader)
    empty = await provider.remains(sandbox)
    emulator.force(sandbox.sandbox_id, State.DESTROYED)

    assert empty is not None
    assert (empty.stage, list(empty.lines)) == ("not_started", [])
    assert await provider.remains(sandbox) is None


async def test_another_organisation(
    provider: SandboxProvider, other_provider: SandboxProvider
) -> None:
    """Its sandboxes are not read."""
    alien = await other_provider.create(operation(), Resources())

    assert isinstance(provider, CrashReader)
    await refused(provider.remains(alien), Refused)
