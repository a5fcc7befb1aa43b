"""Group commit: whoever asks while a commit is under way rides the next one (DESIGN §5).

Many runs want the same step at the same moment, and a transaction costs far more than a row in
it. So a step's requests queue while one batch is at the database, and go together when it is back.
There is no timer: an idle step sends the first request at once.

A batch fails as one where the database failed: each asker gets that error. A batch that the
database refused for one of its rows is sent again row by row, once, so that one value that cannot
be stored harms nobody else; such a refusal rolled the whole batch back.

An asker that is cancelled takes its request back while that is still queued. Once it is sent,
the batch goes on and the answer is dropped: the outcome is unknown to the cancelled.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import attrs
import trio

from deepline.core.model.json_value import Json
from deepline.ports.errors import CapacityExceeded, OutcomeUnknown, PortError, Unavailable

BATCH_MAX = 64
BATCH_BYTES_MAX = 4 * 1024 * 1024
QUEUE_MAX = 10_000
_FULL_RETRY_AFTER = timedelta(seconds=5)

Send = Callable[[Sequence[str]], Awaitable[Sequence[Json]]]
"""Runs one batch of encoded requests in one transaction; one answer a request, in order."""


@attrs.define(eq=False)
class _Asked:
    request: str
    settled: trio.Event = attrs.field(factory=trio.Event)
    answer: Json = None
    error: Exception | None = None

    def answered(self, answer: Json) -> None:
        self.answer = answer
        self.settled.set()

    def failed(self, error: Exception) -> None:
        self.error = error
        self.settled.set()


class GroupCommit:
    """One step's queue. `run` must be running in a task for `ask` to be answered."""

    def __init__(
        self,
        send: Send,
        *,
        batch_max: int = BATCH_MAX,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        queue_max: int = QUEUE_MAX,
    ) -> None:
        self._send = send
        self._batch_max = batch_max
        self._batch_bytes_max = batch_bytes_max
        self._queue_max = queue_max
        self._queue: deque[_Asked] = deque()
        self._arrival = trio.Event()
        self._closed = False

    async def ask(self, request: str) -> Json:
        """Send one encoded request with the next batch and return its answer.

        Raises what the batch raised, and `CapacityExceeded` when the queue is full. Whoever
        cancels it after it was sent must take its outcome as unknown.
        """
        if self._closed:
            raise Unavailable("the store is closed")
        if len(self._queue) >= self._queue_max:
            raise _full()
        asked = _Asked(request)
        self._queue.append(asked)
        self._arrival.set()
        try:
            await asked.settled.wait()
        except trio.Cancelled:
            if asked in self._queue:
                self._queue.remove(asked)
            raise
        if asked.error is not None:
            raise asked.error.with_traceback(None)
        return asked.answer

    async def run(self) -> None:
        """Carry batches until cancelled; whoever still waits then learns that."""
        batch: Sequence[_Asked] = ()
        try:
            while True:
                await self._arrival.wait()
                batch = self._take()
                await self._carry(batch)
                batch = ()
        finally:
            self._closed = True
            for asked in batch:
                if not asked.settled.is_set():
                    asked.failed(OutcomeUnknown("the store was closed during the write"))
            for asked in self._queue:
                asked.failed(Unavailable("the store is closed"))
            self._queue.clear()

    def _take(self) -> Sequence[_Asked]:
        batch: list[_Asked] = []
        size = 0
        while self._queue and len(batch) < self._batch_max:
            size += len(self._queue[0].request)
            if batch and size > self._batch_bytes_max:
                break
            batch.append(self._queue.popleft())
        if not self._queue:
            self._arrival = trio.Event()
        return batch

    async def _carry(self, batch: Sequence[_Asked]) -> None:
        if not batch:
            return
        try:
            answers = await self._send([asked.request for asked in batch])
        except PortError as error:
            for asked in batch:
                asked.failed(error)
        except Exception as error:  # noqa: BLE001 - a refused row; raised again where it was asked
            if len(batch) == 1:
                batch[0].failed(error)
                return
            for asked in batch:
                await self._carry([asked])
        else:
            assert len(answers) == len(batch), "a step answers each request"
            for asked, answer in zip(batch, answers, strict=True):
                asked.answered(answer)


def _full() -> CapacityExceeded:
    return CapacityExceeded("too many writes are waiting", _FULL_RETRY_AFTER, "store")
