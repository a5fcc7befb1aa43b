"""A Trio loop in a thread of its own, for callers who have none (decision 0018).

Whoever calls gets a `concurrent.futures.Future` for each piece of work. Cancelling the future
cancels the work; closing the portal cancels all of it.
"""

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractAsyncContextManager, suppress
from typing import Generic, TypeVar

import trio

R = TypeVar("R")
T = TypeVar("T")

CLOSE_S = 10.0
"""How long closing waits for the loop to end; it is a daemon thread and keeps no process alive."""


class PortalClosed(RuntimeError):
    """The client is not open; open it with `with` or `async with` around its use."""


class Portal(Generic[R]):
    """Keeps what `open_resident` opens in a Trio loop, and has work done there."""

    def __init__(self, open_resident: Callable[[], AbstractAsyncContextManager[R]]) -> None:
        self._open_resident = open_resident
        self._opened: Future[R] = Future()
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None

    def open(self) -> None:
        """Start the loop and wait until the resident is open. Raises what opening it raises."""
        if self._thread is not None:
            raise PortalClosed("a client is opened once; make another one")
        self._thread = threading.Thread(target=self._run, name="deepline-client", daemon=True)
        self._thread.start()
        self._opened.result()

    def close(self) -> None:
        """Cancel all work, close the resident and end the loop; repeating is harmless."""
        token, thread = self._token, self._thread
        if token is None or thread is None:
            return
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(self._end)
        thread.join(CLOSE_S)

    def begin(self, work: Callable[[R], Awaitable[T]]) -> Future[T]:
        """Have work done with the resident. Raises `PortalClosed`, also through the future."""
        if self._token is None:
            raise PortalClosed("the client is not open; use it within its `with` block")
        future: Future[T] = Future()
        try:
            self._token.run_sync_soon(self._start, work, future)
        except trio.RunFinishedError:
            raise PortalClosed("the client is closed") from None
        return future

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            if not self._opened.done():
                self._opened.set_exception(error)

    async def _main(self) -> None:
        async with self._open_resident() as resident, trio.open_nursery() as nursery:
            self._token = trio.lowlevel.current_trio_token()
            self._nursery = nursery
            self._opened.set_result(resident)
            await trio.sleep_forever()

    def _end(self) -> None:
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery.cancel_scope.cancel(reason="the client is closed")

    def _start(self, work: Callable[[R], Awaitable[T]], future: "Future[T]") -> None:
        if self._nursery is None:
            future.set_exception(PortalClosed("the client is closed"))
        else:
            self._nursery.start_soon(self._carry, work, future)

    async def _carry(self, work: Callable[[R], Awaitable[T]], future: "Future[T]") -> None:
        with trio.CancelScope() as scope:
            future.add_done_callback(lambda ended: self._follow(ended, scope))
            try:
                answer = await work(self._opened.result())
            except trio.Cancelled:
                with suppress(InvalidStateError):
                    future.set_exception(PortalClosed("the client is closed"))
                raise
            except Exception as error:  # noqa: BLE001 - it is the caller's to see
                with suppress(InvalidStateError):
                    future.set_exception(error)
            else:
                with suppress(InvalidStateError):
                    future.set_result(answer)

    def _follow(self, ended: "Future[T]", scope: trio.CancelScope) -> None:
        """Cancel the work of a future that its caller cancelled; called from any thread."""
        if ended.cancelled() and self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(scope.cancel)
