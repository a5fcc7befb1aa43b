"""One emulator for all tests here, with nothing wrong with it when a test begins."""

from collections.abc import AsyncIterator, Iterator

import attrs
import pytest

from deepline.testing.emulators.modal import ModalEmulator, Temper, modal_emulator
from tests.adapters.modal.scene import TOKENS, Scene, account, provider_of


@pytest.fixture(scope="package")
def shared_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModalEmulator]:
    """The emulator's process; when it ends, everything in it does."""
    with modal_emulator(tmp_path_factory.mktemp("modal"), TOKENS) as emulator:
        yield emulator


@pytest.fixture
def emulator(shared_emulator: ModalEmulator) -> ModalEmulator:
    """The emulator as it is when nothing is wrong."""
    shared_emulator.clear_faults()
    shared_emulator.behave(**attrs.asdict(Temper(terminate_delay_s=0.05)))
    return shared_emulator


@pytest.fixture
async def scene(emulator: ModalEmulator) -> AsyncIterator[Scene]:
    """A provider of our account; what a test leaves is the emulator's to end."""
    async with provider_of(account(emulator)) as provider:
        yield Scene(provider, emulator)
