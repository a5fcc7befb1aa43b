"""Calls to Modal from Trio: one client for all, opened at the first call (C40)."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import attrs
import trio

from deepline.adapters.asyncio_bridge import AsyncioBridge
from deepline.adapters.modal.account import ModalAccount
from deepline.adapters.modal.client import Opened, open_client
from deepline.adapters.modal.failures import judge, port_error
from deepline.core.model.sandbox import SandboxRef
from deepline.ports.errors import PortError

T = TypeVar("T")
PROVIDER = "modal"
CLOSE_S = 5.0


@attrs.define(eq=False)
class Session:
    """The client of one account, shared by whoever calls.

    A client that could not be opened is tried again by the next caller.
    """

    account: ModalAccount
    bridge: AsyncioBridge
    _opening: trio.Lock = attrs.field(init=False, factory=trio.Lock)
    _opened: Opened | None = attrs.field(init=False, default=None)

    async def opened(self) -> Opened:
        """The client, which knows whose it is. Raises port errors; nothing was changed then."""
        async with self._opening:
            if self._opened is None:
                self._opened = await self.call(
                    lambda: open_client(self.account), "be reached", has_effect=False
                )
            return self._opened

    async def domain(self) -> str:
        """Where our sandboxes are: workspace and environment, as a routing domain."""
        opened = await self.opened()
        return f"{opened.workspace}/{self.account.environment}"

    async def ref(self, sandbox_id: str) -> SandboxRef:
        """The reference to a sandbox of ours."""
        domain = await self.domain()
        return SandboxRef(provider=PROVIDER, sandbox_id=sandbox_id, routing_domain=domain)

    async def raw(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something on the client's side; its errors come as they are."""
        try:
            return await self.bridge.run(work)
        except Exception as error:
            if type(error).__name__ == "ClientClosed":
                # It does not open again; the next caller gets another one.
                self._opened = None
            raise

    async def call(self, work: Callable[[], Awaitable[T]], doing: str, *, has_effect: bool) -> T:
        """Do something on the client's side; its errors come as those of the port."""
        return await self.guarded(lambda: self.raw(work), doing, has_effect=has_effect)

    async def guarded(self, work: Callable[[], Awaitable[T]], doing: str, *, has_effect: bool) -> T:
        """Do something on our side that calls the client; its errors come as those of the port."""
        try:
            return await work()
        except PortError:
            raise
        except Exception as error:
            raise port_error(judge(error), doing, has_effect=has_effect) from error

    async def aclose(self) -> None:
        """Close the client, if there is one; bounded."""
        opened, self._opened = self._opened, None
        if opened is not None:
            with trio.move_on_after(CLOSE_S, shield=True):
                await self.raw(opened.client.close.aio)
