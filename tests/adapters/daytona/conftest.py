"""One emulated Daytona for all tests of this directory, cleared between them."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from deepline.adapters.daytona import opened_daytona
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.testing.emulators import DaytonaEmulator
from tests.adapters.daytona.emulation import ALIEN_KEY, clear, settings, started_emulator


@pytest.fixture(scope="session")
def shared_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaytonaEmulator]:
    """An emulator with two organisations; starting one takes longer than most tests."""
    with started_emulator(tmp_path_factory.mktemp("daytona")) as emulator:
        yield emulator


@pytest.fixture
def emulator(shared_emulator: DaytonaEmulator) -> Iterator[DaytonaEmulator]:
    """The emulator in an even temper; what a test leaves is taken away."""
    yield shared_emulator
    clear(shared_emulator)


@pytest.fixture
async def provider(emulator: DaytonaEmulator) -> AsyncIterator[SandboxProvider]:
    """A provider of the first organisation."""
    async with opened_daytona(settings(emulator)) as provider:
        yield provider


@pytest.fixture
async def other_provider(emulator: DaytonaEmulator) -> AsyncIterator[SandboxProvider]:
    """A provider of the other organisation."""
    async with contextlib.AsyncExitStack() as stack:
        yield await stack.enter_async_context(opened_daytona(settings(emulator, ALIEN_KEY)))
