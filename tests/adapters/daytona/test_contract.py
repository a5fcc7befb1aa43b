"""Daytona's sandboxes keep the contract of all providers, against the emulator."""

import pytest
import trio

from deepline.core.model.result import Completed
from deepline.core.model.sandbox import Resources
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.testing import ProviderSubject, SandboxProviderContract
from tests.adapters.daytona.emulation import ENDLESS, WRITES_RESULT, operation, program


@pytest.mark.processes
class TestDaytonaProvider(SandboxProviderContract):
    @pytest.fixture
    async def subject(
        self, provider: SandboxProvider, other_provider: SandboxProvider
    ) -> ProviderSubject:
        """Two organisations of one emulated Daytona."""

        async def pause() -> None:
            await trio.sleep(0.02)

        return ProviderSubject(
            provider=provider,
            new_operation=operation,
            endless=program(ENDLESS),
            finishing=program(WRITES_RESULT),
            result=Completed(output={"rows": 3}),
            pause=pause,
            alien=await other_provider.create(operation(), Resources()),
        )
