"""Stopping in order (C04): a request to stop ends waits for new work, never work in hand."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import trio


@attrs.define(eq=False)
class Stop:
    """A request to stop that whoever waits for new work obeys at once.

    It is a value, not a cancellation: runs in hand go on until their drain deadline.
    """

    _requested: bool = attrs.field(init=False, default=False)
    _idle: set[trio.CancelScope] = attrs.field(init=False, factory=set)

    @property
    def requested(self) -> bool:
        """True from the first request on."""
        return self._requested

    def request(self) -> None:
        """Ask to stop. Idempotent; returns at once."""
        self._requested = True
        for scope in tuple(self._idle):
            scope.cancel(reason="stopping")

    @contextmanager
    def interrupts(self) -> Iterator[None]:
        """Wrap a wait for new work; it ends quietly when stopping. Never wrap work itself."""
        with trio.CancelScope() as scope:
            self._idle.add(scope)
            if self._requested:
                scope.cancel(reason="stopping")
            try:
                yield
            finally:
                self._idle.discard(scope)

    async def wait(self) -> None:
        """Return once a stop is requested."""
        with self.interrupts():
            await trio.sleep_forever()


async def obey_signals(
    stop: Stop,
    everything: trio.CancelScope,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Turn the first SIGTERM or SIGINT into a stop, the second into the end of `everything`."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            if stop.requested:
                everything.cancel(reason="second signal")
                return
            stop.request()
