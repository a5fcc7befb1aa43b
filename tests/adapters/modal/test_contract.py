"""Modal sandboxes keep the contract of all providers."""

from collections.abc import AsyncIterator

import pytest
import trio

from deepline.core.model.result import Completed
from deepline.core.model.sandbox import Resources
from deepline.testing import ProviderSubject, SandboxProviderContract
from deepline.testing.emulators.modal import ModalEmulator
from tests.adapters.modal.scene import (
    SLEEPS,
    SUCCEEDS,
    account,
    new_operation,
    program,
    provider_of,
)


@pytest.mark.slow
@pytest.mark.processes
class TestModalProvider(SandboxProviderContract):
    @pytest.fixture
    async def subject(self, emulator: ModalEmulator) -> AsyncIterator[ProviderSubject]:
        """Two workspaces of one provider."""
        async with (
            provider_of(account(emulator)) as provider,
            provider_of(account(emulator, 1)) as other,
        ):
            alien = await other.create(new_operation(), Resources())

            async def pause() -> None:
                await trio.sleep(0.05)

            yield ProviderSubject(
                provider=provider,
                new_operation=new_operation,
                endless=program(SLEEPS),
                finishing=program(SUCCEEDS),
                result=Completed(output={"rows": 3}),
                pause=pause,
                alien=alien,
                absence_proves=True,
            )
