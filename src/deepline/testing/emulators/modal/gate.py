"""Where something goes wrong with a call to the emulator, by rule."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

from grpclib import GRPCError, Status
from grpclib.server import Stream
from modal_proto import api_pb2

from deepline.testing.emulators.faults import FaultBook, FaultRule
from deepline.testing.emulators.modal.accounts import FOREIGN
from deepline.testing.emulators.modal.service import Handler

HANG_S = 3_600.0
RETRY_AFTER = "retry-after"


class FaultGate:
    """Counts every call and has the first rule that fits spoil it.

    Of a rule, `calls` names gRPC methods, `status` is a gRPC status code, and the header
    `retry-after` becomes the vendor's own advice of when to come again, in seconds. `calls` counts
    what came, `cancelled` what the caller took back while it hung.
    """

    def __init__(self, book: FaultBook) -> None:
        self.book = book
        self.calls: Counter[str] = Counter()
        self.cancelled: Counter[str] = Counter()
        self._late: set[asyncio.Task[None]] = set()

    async def __call__(self, name: str, stream: Stream[Any, Any], handler: Handler) -> None:
        """Run the handler, or have something go wrong before, after or instead of it."""
        self.calls[name] += 1
        rule = self.book.take(name)
        if rule is None:
            await handler(stream)
            return
        await asyncio.sleep(rule.delay_s)
        if rule.foreign and stream.metadata is not None:
            stream.metadata[FOREIGN] = "yes"
        if not (rule.hangs or rule.lost or rule.status is not None):
            await handler(stream)
            return
        if rule.after_effect and rule.late_s:
            self._have_later(_Heard(stream, await stream.recv_message()), rule.late_s, handler)
        elif rule.after_effect:
            await handler(_Mute(stream))
        if rule.hangs:
            await self._hang(name)
        elif rule.lost:
            _cut(stream)
        else:
            raise _error(rule)

    def _have_later(self, heard: "_Heard", late_s: float, handler: Handler) -> None:
        """Have a call's effect when its caller is told something else already."""

        async def come() -> None:
            await asyncio.sleep(late_s)
            with contextlib.suppress(GRPCError):
                await handler(heard)

        task = asyncio.create_task(come())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _hang(self, name: str) -> None:
        try:
            await asyncio.sleep(HANG_S)
        except asyncio.CancelledError:
            self.cancelled[name] += 1
            raise


class _Mute(Stream[Any, Any]):
    """A stream that hears its caller and answers nothing."""

    def __init__(self, stream: Stream[Any, Any]) -> None:
        # The base is left bare on purpose: everything there is to do is handed on.
        self._heard = stream
        self.metadata = stream.metadata

    async def recv_message(self) -> Any:
        """What the caller sent."""
        return await self._heard.recv_message()

    async def send_message(self, message: Any) -> None:
        """Say nothing."""

    async def __anext__(self) -> Any:
        return await self._heard.__anext__()


class _Heard(_Mute):
    """A stream whose one message has come, and whose caller is gone."""

    def __init__(self, stream: Stream[Any, Any], message: Any) -> None:
        super().__init__(stream)
        self._message = message

    async def recv_message(self) -> Any:
        """What the caller had sent."""
        return self._message


def _error(rule: FaultRule) -> GRPCError:
    details = None
    if RETRY_AFTER in rule.headers:
        seconds = float(rule.headers[RETRY_AFTER])
        details = [api_pb2.RPCRetryPolicy(retry_after_secs=seconds)]
    return GRPCError(Status(rule.status), rule.message, details)


def _cut(stream: Stream[Any, Any]) -> None:
    """Tear the connection; the library has no public word for it."""
    with contextlib.suppress(AttributeError):
        stream._stream._transport.abort()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
