"""The example of a provider keeps the contract of the port."""

import io
import zipfile
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest
import trio

from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.result import Completed
from deepline.core.model.sandbox import Operation, Resources
from deepline.ports.sandbox_provider import RunnerStart, SandboxProvider
from deepline.testing import ProviderSubject, SandboxProviderContract
from examples.custom_provider import DirectoryProvider

RESULT = Completed(output={"rows": 3})
WRITES_RESULT = """
import json
with open("result.json", "w") as file:
    json.dump({"status": "completed", "output": {"rows": 3}}, file)
"""
_NUMBERS = count(1)


def program(code: str) -> RunnerStart:
    """A runner that is this code."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", code)
    return RunnerStart(runner_pyz=buffer.getvalue(), environment={"SECRET": "hush"})


def operation() -> Operation:
    """An intended create that nobody has."""
    number = next(_NUMBERS)
    return Operation(
        key=f"operation-{number}",
        token=f"token{number}",
        name=f"dl-token{number}",
        provider="directory",
        org_id=OrgId("org-1"),
        run_id=RunId("run-1"),
        attempt=1,
    )


@pytest.mark.slow
@pytest.mark.processes
class TestDirectoryProvider(SandboxProviderContract):
    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[ProviderSubject]:
        """The provider over real processes; what is left of them is deleted."""
        provider: SandboxProvider = DirectoryProvider(tmp_path)

        async def pause() -> None:
            await trio.sleep(0.05)

        yield ProviderSubject(
            provider=provider,
            new_operation=operation,
            endless=program("import time; time.sleep(3600)"),
            finishing=program(WRITES_RESULT),
            result=RESULT,
            pause=pause,
        )
        for owned in (await provider.owned()).sandboxes:
            await provider.delete(owned.ref, None)


async def test_a_runner_sees_nothing_of_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a play finds in its environment is what the runner was given, not what we have."""
    monkeypatch.setenv("WORKER_SECRET", "hush")
    provider: SandboxProvider = DirectoryProvider(tmp_path)
    sandbox = await provider.create(operation(), Resources())
    await provider.start(
        sandbox, program("import os; open('seen', 'w').write(' '.join(sorted(os.environ)))")
    )
    with trio.fail_after(20):
        while not (await provider.inspect(sandbox, command_id=None)).proves_gone:
            await trio.sleep(0.02)

    seen = (tmp_path / sandbox.sandbox_id / "work" / "seen").read_text().split()
    assert "SECRET" in seen
    assert "WORKER_SECRET" not in seen
    assert not [name for name in seen if name.startswith("DEEPLINE")]
    await provider.delete(sandbox, None)
    assert not list(tmp_path.iterdir())
