"""A Daytona provider for the length of a block; the vendor's client is loaded only then."""

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from deepline.adapters.asyncio_bridge import AsyncioBridge
from deepline.adapters.daytona.settings import DaytonaSettings
from deepline.ports.errors import Refused
from deepline.ports.sandbox_provider import SandboxProvider

_CLOSE_S = 5.0


@asynccontextmanager
async def opened_daytona(settings: DaytonaSettings) -> AsyncIterator[SandboxProvider]:
    """A provider with connections of its own, given back when the block is left.

    Nothing is asked of Daytona yet. Raises `Refused` when its client is not installed.
    """
    # The client takes more than a second to load, which the scheduler must not wait for.
    await trio.to_thread.run_sync(_load)
    from deepline.adapters.daytona.provider import DaytonaProvider  # noqa: PLC0415 - just loaded
    from deepline.adapters.daytona.sdk import DaytonaSdk  # noqa: PLC0415 - the same

    async with AsyncioBridge() as bridge:
        sdk = DaytonaSdk(bridge, settings)
        await sdk.open()
        try:
            yield DaytonaProvider(sdk, settings)
        finally:
            with trio.move_on_after(_CLOSE_S, shield=True):
                await sdk.close()


def _load() -> None:
    try:
        importlib.import_module("deepline.adapters.daytona.provider")
    except ModuleNotFoundError as missing:
        raise Refused(
            "daytona_not_installed",
            "the provider daytona needs its vendor's client; install deepline-runtime[daytona]",
        ) from missing
