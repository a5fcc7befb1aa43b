"""What a dead runner left in a local sandbox can be read until it is deleted (C44)."""

import pytest

from deepline.adapters.local import LocalProvider
from deepline.core.crash_diagnostics import LINES_MAX
from deepline.core.model.sandbox import Resources
from deepline.ports.crash_reader import CrashReader
from deepline.ports.sandbox_provider import Deleted
from tests.adapters.local.sandboxes import operation, seen, started

DYING = """
import os, sys
for number in range(300):
    print("line", number)
print("the last word", file=sys.stderr)
sys.stdout.flush()
os._exit(3)
"""


@pytest.mark.processes
async def test_the_exit_and_the_last_lines_of_both_streams_are_read(plain: LocalProvider) -> None:
    """Neither stream pushes the other out, and the look changes nothing."""
    sandbox = await started(plain, DYING)
    await seen(plain, sandbox)

    assert isinstance(plain, CrashReader)
    remains = await plain.remains(sandbox)

    assert remains is not None
    assert (remains.stage, remains.exit_code) == ("command_exited", 3)
    assert remains.lines[-1] == "stderr: the last word"
    assert remains.lines[-2] == "stdout: line 299"
    assert len(remains.lines) <= LINES_MAX
    assert await plain.remains(sandbox) == remains


async def test_a_sandbox_that_is_gone_left_nothing(plain: LocalProvider) -> None:
    """And one in which nothing ever ran left no line."""
    sandbox = await plain.create(operation(), Resources())
    empty = await plain.remains(sandbox)
    assert await plain.delete(sandbox, None) == Deleted()

    assert empty is not None
    assert (empty.stage, list(empty.lines)) == ("not_started", [])
    assert await plain.remains(sandbox) is None
