"""Long answers end with their reader: when the client hangs up, or when the gateway drains."""

from collections.abc import Awaitable, Callable

import trio
from starlette.types import Receive

from deepline.gateway.bodies import ClientGone


async def while_present(
    receive: Receive, work: Callable[[], Awaitable[None]], *, draining: trio.Event | None = None
) -> None:
    """Run `work` until it ends, `draining` is set, or the client goes (`ClientGone`).

    `work` is cancelled in the last two cases, so it must only read.
    """
    gone = False

    async def watch_client() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        nursery.cancel_scope.cancel(reason="the client is gone")

    async def watch_drain(draining: trio.Event) -> None:
        await draining.wait()
        nursery.cancel_scope.cancel(reason="the gateway drains")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_client)
        if draining is not None:
            nursery.start_soon(watch_drain, draining)
        await work()
        nursery.cancel_scope.cancel(reason="done")
    if gone:
        raise ClientGone
