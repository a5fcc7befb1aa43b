"""Daytona's sandboxes keep the contract of all providers, against the emulator."""

from collections.abc import AsyncIterator
from datetime import timedelta

import attrs
import pytest
import trio

from deepline.adapters.daytona import Patience, opened_daytona
from deepline.core.model.result import Completed
from deepline.core.model.sandbox import Resources
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.testing import ProviderSubject, SandboxProviderContract
from deepline.testing.emulators import DaytonaEmulator
from tests.adapters.daytona.emulation import (
    ENDLESS,
    WRITES_RESULT,
    operation,
    program,
    settings,
)


@pytest.mark.processes
class TestDaytonaProvider(SandboxProviderContract):
    @pytest.fixture
    async def provider(self, emulator: DaytonaEmulator) -> AsyncIterator[SandboxProvider]:
        """One that believes an absence sooner than for anybody real."""
        patience = Patience(missing=timedelta(seconds=0.5))
        async with opened_daytona(attrs.evolve(settings(emulator), patience=patience)) as provider:
            yield provider

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
