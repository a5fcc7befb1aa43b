"""Calls from Trio into one asyncio loop, with real cancellation (C40, C46, PROVIDERS 3).

The loop runs in a thread of its own, so nothing of asyncio is patched and Trio keeps its own
scheduling. Threads for blocking calls would have been simpler, but nothing ends a thread: a
cancelled call would go on and hold its place. Here the task on the other side is cancelled too, and
the caller comes back when it has unwound, or after `unwind_s` when it does not.

What crosses is a function, a result or an error. Context variables stay where they are: a library
that asks which loop it runs in shall not find Trio's answer.
"""

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import attrs
import trio

from deepline.ports.errors import OutcomeUnknown, Unavailable

T = TypeVar("T")

_log = logging.getLogger("deepline.asyncio_bridge")


@attrs.define(eq=False)
class _Call(Generic[T]):
    """One call on its way; Trio reads `result` or `failure` once `settled` is set."""

    work: Callable[[], Awaitable[T]]
    token: trio.lowlevel.TrioToken
    settled: trio.Event = attrs.field(factory=trio.Event)
    task: "asyncio.Task[None] | None" = None
    cancelled: bool = False
    result: tuple[T] | None = None
    failure: BaseException | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the work on the loop, unless it was cancelled before the loop came to it."""
        self.task = loop.create_task(self._run(), context=contextvars.Context())
        self.task.add_done_callback(self._tell, context=contextvars.Context())
        if self.cancelled:
            self.task.cancel()

    def abandon(self) -> None:
        """Cancel on the loop, whether or not the work has begun."""
        self.cancelled = True
        if self.task is not None:
            self.task.cancel()

    def outcome(self) -> T:
        """The result, or the error that ended the work, raised."""
        if self.failure is not None:
            raise self.failure
        if self.result is None:
            raise OutcomeUnknown("the call was cancelled by the asyncio side")
        return self.result[0]

    async def _run(self) -> None:
        try:
            self.result = (await self.work(),)
        except asyncio.CancelledError:
            raise
        except BaseException as failure:  # noqa: BLE001 - an exit would end the loop for everyone
            self.failure = failure

    def _tell(self, _task: object) -> None:
        try:
            self.token.run_sync_soon(self.settled.set)
        except trio.RunFinishedError:
            _log.debug("a call ended after its Trio run")


class AsyncioBridge:
    """One asyncio loop in a thread, open within `async with`.

    At most `calls_max` calls are under way; more wait. A call that does not unwind within
    `unwind_s` after its cancellation is left behind and counted in `left_behind`. Closing cancels
    what is under way and waits for it and for the thread, `close_s` in all; the thread never keeps
    the process from ending.
    """

    def __init__(
        self, *, calls_max: int = 64, unwind_s: float = 5.0, close_s: float = 10.0
    ) -> None:
        self.left_behind = 0
        self._unwind_s = unwind_s
        self._close_s = close_s
        self._places = trio.CapacityLimiter(calls_max)
        self._calls: set[_Call[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Self:
        assert self._loop is None, "a bridge is opened once"
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_stray)
        self._thread = threading.Thread(
            target=_serve, args=(self._loop,), name="asyncio-bridge", daemon=True
        )
        self._thread.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        loop, thread = self._loop, self._thread
        assert loop is not None
        assert thread is not None
        self._loop = None
        with trio.move_on_after(self._close_s, shield=True):
            _soon(loop, lambda: loop.create_task(_wind_down(loop)))
            await trio.to_thread.run_sync(thread.join, self._close_s)
        for call in self._calls:
            call.settled.set()
        if thread.is_alive():
            _log.warning("the asyncio thread did not end in time and is left behind")

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` on the asyncio loop and give its result, or raise its error as it is.

        Cancelled, the task on the loop is cancelled and has unwound when this returns; its effect
        may have happened. Raises `Unavailable` when the bridge is closed, `OutcomeUnknown` when the
        other side cancelled the work by itself.
        """
        async with self._places:
            return await self._run(work)

    async def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        loop = self._loop
        if loop is None:
            raise Unavailable("the asyncio bridge is closed")
        call = _Call(work=work, token=trio.lowlevel.current_trio_token())
        self._calls.add(call)
        _soon(loop, lambda: call.begin(loop))
        try:
            await call.settled.wait()
        finally:
            if not call.settled.is_set():
                _soon(loop, call.abandon)
                with trio.move_on_after(self._unwind_s, shield=True):
                    await call.settled.wait()
                self._note(call)
            self._calls.discard(call)
        return call.outcome()

    def _note(self, call: _Call[Any]) -> None:
        if not call.settled.is_set():
            self.left_behind += 1
            _log.warning("a cancelled call on the asyncio side does not end and is left behind")


def _soon(loop: asyncio.AbstractEventLoop, act: Callable[[], object]) -> None:
    """Have the loop do something, in a context of its own."""
    with contextlib.suppress(RuntimeError):  # it is closed: there is nothing left to act on
        loop.call_soon_threadsafe(act, context=contextvars.Context())


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """The thread: whenever the loop ends, late or not, what it holds is given back."""
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _wind_down(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel everything and stop the loop once it has unwound."""
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await loop.shutdown_asyncgens()
    loop.stop()


def _stray(_loop: asyncio.AbstractEventLoop, found: Mapping[str, Any]) -> None:
    """Note an error nobody waits for; not its text, which may hold what was sent."""
    failure = found.get("exception")
    kind = type(failure).__name__ if failure is not None else "none"
    _log.warning("asyncio: %s (error: %s)", found.get("message", ""), kind)
