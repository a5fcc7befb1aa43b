"""Local sandboxes keep the contract of all providers."""

from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path

import pytest
import trio

from deepline.adapters.local import Isolation
from deepline.core.model.result import Completed
from deepline.core.model.sandbox import Operation, Resources
from deepline.testing import ProviderSubject, SandboxProviderContract
from tests.adapters.local.sandboxes import operation, program, provider_at

WRITES_RESULT = """
import json
with open("result.json", "w") as file:
    json.dump({"status": "completed", "output": {"rows": 3}}, file)
"""


def operations(prefix: str = "dl") -> Callable[[], Operation]:
    """Intended creates that nobody has."""
    numbers = count(1)

    def new() -> Operation:
        number = next(numbers)
        return operation(f"{prefix}-{number}", f"token-{prefix}-{number}")

    return new


@pytest.mark.slow
@pytest.mark.processes
class TestLocalProvider(SandboxProviderContract):
    @pytest.fixture(params=[Isolation.NONE, Isolation.PREFER], ids=["plain", "isolated"])
    async def subject(
        self, request: pytest.FixtureRequest, tmp_path: Path
    ) -> AsyncIterator[ProviderSubject]:
        """Two organisations over one directory; what is left of them is deleted."""
        provider = provider_at(tmp_path, request.param)
        other = provider_at(tmp_path, request.param, org="globex")
        alien = await other.create(operations("alien")(), Resources())

        async def pause() -> None:
            await trio.sleep(0.05)

        yield ProviderSubject(
            provider=provider,
            new_operation=operations(),
            endless=program("import time; time.sleep(3600)"),
            finishing=program(WRITES_RESULT),
            result=Completed(output={"rows": 3}),
            pause=pause,
            alien=alien,
            absence_proves=True,
        )
        for owner in (provider, other):
            for owned in (await owner.owned()).sandboxes:
                await owner.delete(owned.ref, None)
