"""Waits on Trio for what psycopg's protocol code asks for.

psycopg keeps the protocol apart from the waiting: an operation is a generator that yields "I need
the socket readable" or "writable" and is told which it became. So everything that ties it to an
event loop fits in this module. libpq's own state machines, for a connect and for a cancel request,
say the same with a polling status.
"""

import select
from collections.abc import Awaitable, Callable, Generator
from typing import Protocol, TypeVar

import psycopg
import trio
from psycopg.pq import PollingStatus
from psycopg.waiting import Ready, Wait

_Result = TypeVar("_Result")

_READABLE = int(Ready.R)
_WRITABLE = int(Ready.W)
_WANT_READ = int(Wait.R)
_SOCKET_GONE = (OSError, trio.ClosedResourceError)


class PolledByLibpq(Protocol):
    """A connection or a cancel request while libpq is at work on it."""

    @property
    def socket(self) -> int: ...

    def get_error_message(self) -> str: ...


def ready_now(socket: int, want: int) -> int:
    """What of `want` the socket is ready for at this moment, without waiting; 0 for nothing."""
    events = 0
    if want & _READABLE:
        events |= select.POLLIN
    if want & _WRITABLE:
        events |= select.POLLOUT
    poll = select.poll()
    poll.register(socket, events)
    happened = 0
    for _, event in poll.poll(0):
        happened |= event
    # A hang-up or an error shows as readable: reading is what will report it.
    readable = happened & (select.POLLIN | select.POLLHUP | select.POLLERR)
    ready = _READABLE if readable else 0
    return (ready | (_WRITABLE if happened & select.POLLOUT else 0)) & want


async def wait_ready(socket: int, want: int) -> int:
    """Wait until the socket is ready for some of `want`. Cancelling it changes nothing.

    Raises psycopg.OperationalError when the socket is closed meanwhile.
    """
    try:
        if want == _WANT_READ:
            await trio.lowlevel.wait_readable(socket)
            return _READABLE
        # A socket is nearly always writable, and asking is much cheaper than waiting.
        return ready_now(socket, want) or await _wait_either(socket, want)
    except _SOCKET_GONE as failure:
        raise psycopg.OperationalError("the connection's socket is closed") from failure


async def _wait_either(socket: int, want: int) -> int:
    """Wait for whichever of reading and writing becomes possible first."""
    ready = 0
    failure: Exception | None = None

    async def watch(wait: Callable[[int], Awaitable[None]], flag: int) -> None:
        nonlocal ready, failure
        try:
            await wait(socket)
            ready |= flag
        except _SOCKET_GONE as error:
            failure = error  # raised outside of the nursery, which would wrap it in a group
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        if want & _READABLE:
            nursery.start_soon(watch, trio.lowlevel.wait_readable, _READABLE)
        if want & _WRITABLE:
            nursery.start_soon(watch, trio.lowlevel.wait_writable, _WRITABLE)
    if failure is not None:
        raise failure
    return ready


async def drive(operation: Generator[int, int, _Result], socket: int) -> _Result:
    """Run a psycopg operation to its end, on a socket that stays the same.

    Cancelled, it leaves the operation where it was: driving it again goes on from there.
    """
    wait_readable = trio.lowlevel.wait_readable
    try:
        want = next(operation)
        while True:
            if want == _WANT_READ:
                await wait_readable(socket)
                want = operation.send(_READABLE)
            else:
                want = operation.send(await wait_ready(socket, want))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    except _SOCKET_GONE as failure:
        raise psycopg.OperationalError("the connection's socket is closed") from failure


async def drive_for(
    operation: Generator[int, int, _Result], socket: int, seconds: float
) -> _Result:
    """Run a psycopg operation for so long; with 0 seconds it still looks at the socket once.

    Raises psycopg's own wait timeout, which its callers expect of a connection's `wait`.
    """
    with trio.move_on_after(seconds):
        try:
            want = next(operation)
            while True:
                ready = ready_now(socket, want)
                want = operation.send(ready or await wait_ready(socket, want))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
    raise psycopg.errors._WaitTimeout("wait timeout expired")  # noqa: SLF001


async def drive_libpq(polled: PolledByLibpq, poll: Callable[[], int]) -> None:
    """Run a connect or a cancel request of libpq to its end.

    Raises psycopg.OperationalError with libpq's message when it fails.
    """
    while (status := poll()) != PollingStatus.OK:
        if status == PollingStatus.FAILED:
            raise psycopg.OperationalError(polled.get_error_message())
        wanted = Wait.R if status == PollingStatus.READING else Wait.W
        await wait_ready(polled.socket, wanted)
