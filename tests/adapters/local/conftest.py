"""A provider at every level of isolation that can be had here."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deepline.adapters.local import Isolation, Level, LocalProvider
from tests.adapters.local.sandboxes import provider_at


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[LocalProvider]:
    """A provider without namespaces; what a test leaves running is removed."""
    provider = provider_at(tmp_path)
    yield provider
    await _clear(provider)


@pytest.fixture(params=["plain", "bwrap"])
async def provider(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LocalProvider]:
    """A provider in plain mode, and one with namespaces where this machine allows them."""
    isolated = request.param == "bwrap"
    provider = provider_at(tmp_path, Isolation.PREFER if isolated else Isolation.NONE)
    level = await provider.isolation_level()
    if isolated and level is Level.PLAIN:
        pytest.skip("bubblewrap is not installed here, or namespaces are forbidden")
    yield provider
    await _clear(provider)


async def _clear(provider: LocalProvider) -> None:
    await provider.isolation_level()
    for sandbox in (await provider.owned()).sandboxes:
        await provider.delete(sandbox.ref, None)
