"""Modal sandboxes behind the provider port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deepline.adapters.asyncio_bridge import AsyncioBridge
from deepline.adapters.modal import creating, deletion, inspection, listing, starting
from deepline.adapters.modal.absences import Absences
from deepline.adapters.modal.account import ModalAccount
from deepline.adapters.modal.remains import read_remains
from deepline.adapters.modal.session import PROVIDER, Session
from deepline.core.crash_diagnostics import Remains
from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef
from deepline.ports.cleanup import Acceptance
from deepline.ports.clock import Clock
from deepline.ports.sandbox_provider import (
    DeleteOutcome,
    OwnedPage,
    RunnerStart,
    StartedRunner,
)

ABSENCE_SPACING_S = 30.0


class ModalProvider:
    """Sandboxes of one Modal account.

    The vendor's client is loaded and opened at the first call; until then nothing is asked of the
    provider. Every call to it is one request, and a cancelled one is cancelled on the wire.
    `absence_spacing_s` is how far two misses must be apart for an absence to be believed.
    """

    def __init__(
        self,
        account: ModalAccount,
        bridge: AsyncioBridge,
        clock: Clock,
        *,
        absence_spacing_s: float = ABSENCE_SPACING_S,
    ) -> None:
        self._session = Session(account, bridge)
        self._absences = Absences(absence_spacing_s)
        self._clock = clock

    @property
    def name(self) -> str:
        return PROVIDER

    async def create(self, operation: Operation, resources: Resources) -> SandboxRef:
        return await creating.create(self._session, operation, resources, self._clock.now())

    async def find(self, operation: Operation) -> SandboxRef | None:
        opened = await self._session.opened()
        found = await creating.find(self._session, opened, operation)
        if found is None:
            return None
        return await creating.ref_of(self._session, operation, found)

    async def start(self, sandbox: SandboxRef, runner: RunnerStart) -> StartedRunner:
        return await starting.start(self._session, sandbox, runner)

    async def inspect(self, sandbox: SandboxRef, *, command_id: str | None) -> Inspection:
        return await inspection.inspect(self._session, self._absences, sandbox)

    async def remains(self, sandbox: SandboxRef) -> Remains | None:
        return await read_remains(self._session, sandbox)

    async def delete(self, sandbox: SandboxRef, acceptance: Acceptance | None) -> DeleteOutcome:
        return await deletion.delete(self._session, self._absences, sandbox, acceptance)

    async def owned(self, after: str | None = None) -> OwnedPage:
        return await listing.owned(self._session, after)

    async def aclose(self) -> None:
        """Close the client, if one was opened."""
        await self._session.aclose()


@asynccontextmanager
async def opened_modal(
    account: ModalAccount, clock: Clock, *, absence_spacing_s: float = ABSENCE_SPACING_S
) -> AsyncIterator[ModalProvider]:
    """A provider with a bridge of its own, for the length of a block."""
    async with AsyncioBridge() as bridge:
        provider = ModalProvider(account, bridge, clock, absence_spacing_s=absence_spacing_s)
        try:
            yield provider
        finally:
            await provider.aclose()  # noqa: ASYNC102 - shielded and bounded inside
