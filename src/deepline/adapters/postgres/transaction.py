"""Transactions whose end is never torn by a cancellation (C59).

The caller of COMMIT must learn what became of it. So a cancellation counts up to the moment
before COMMIT, where it still means ROLLBACK. Once COMMIT or ROLLBACK is sent, a cancelled caller
waits for the answer, though not for ever; the answer is kept and the cancellation shows at the
caller's next checkpoint. When no answer comes, or the connection dies first, the outcome is
unknown, and that is said with an error of its own.
"""

from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import psycopg
import trio
from psycopg.pq import ConnStatus, TransactionStatus

from deepline.adapters.postgres.waiting import drive

if TYPE_CHECKING:
    from deepline.adapters.postgres.connection import TrioConnection

_Result = TypeVar("_Result")


class CommitOutcomeUnknown(psycopg.OperationalError):
    """COMMIT was sent and its answer never came: it may or may not have happened."""


class TrioTransaction(psycopg.AsyncTransaction):
    """What `TrioConnection.transaction()` hands out."""

    _conn: "TrioConnection"

    async def __aenter__(self) -> Self:
        await trio.lowlevel.checkpoint_if_cancelled()
        async with self._conn.lock:
            self._check_enter()
            try:
                await self._conn.wait(self._enter_gen())
            except BaseException as error:
                # BEGIN may have got through, and nobody will call our __aexit__.
                if self.pgconn.status == ConnStatus.OK:
                    rollback = self._exit_gen(type(error), error, None)
                    await unbroken(self._conn, rollback)  # noqa: ASYNC102, shielded inside
                else:
                    self.status = self.Status.FAILED
                raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool:
        # What must not be cut is shielded and bounded further in, where COMMIT is known from
        # ROLLBACK.
        return await self._leave(exc_type, exc_val, exc_tb)  # noqa: ASYNC102

    async def _leave(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool:
        if exc_val is not None:
            return await self._end(exc_type, exc_val, exc_tb)
        try:
            # The last moment at which a cancellation means ROLLBACK.
            await trio.lowlevel.checkpoint_if_cancelled()
            self._check_committable()
        except BaseException as error:
            await self._end(type(error), error, error.__traceback__)  # noqa: ASYNC102
            raise
        return await self._end(None, None, None)

    def _check_committable(self) -> None:
        """Refuse a COMMIT that the server would quietly turn into a ROLLBACK, or never see."""
        if self.force_rollback:
            return
        if self.pgconn.status != ConnStatus.OK:
            raise psycopg.OperationalError("the connection was lost before COMMIT was sent")
        if self._outer_transaction and (
            self.pgconn.transaction_status == TransactionStatus.INERROR
        ):
            raise psycopg.errors.InFailedSqlTransaction(
                "a statement of this transaction failed, so it can't be committed"
            )

    async def _end(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool:
        if self.pgconn.status != ConnStatus.OK:
            self.status = self.Status.FAILED
            return False
        try:
            async with self._conn.lock:
                swallow = await unbroken(self._conn, self._exit_gen(exc_type, exc_val, exc_tb))
                if self._conn._pipeline is not None:  # noqa: SLF001
                    # In a pipeline the command is only queued so far.
                    await unbroken(self._conn, self._conn._pipeline._sync_gen())  # noqa: SLF001
        except psycopg.Error as failure:
            if exc_val is not None:
                return False  # the error that made us roll back says more
            self.status = self.Status.FAILED
            if self._outer_transaction and self._conn.closed and not self.force_rollback:
                raise CommitOutcomeUnknown("no answer to COMMIT") from failure
            raise
        return bool(swallow)


async def unbroken(
    connection: "TrioConnection", operation: Generator[int, int, _Result]
) -> _Result:
    """Run an operation whose answer must be known, cancelled or not.

    Waits as long as it takes until the caller is cancelled, and then at least one and at most two
    periods of the connection's grace. Raises psycopg.OperationalError, with the connection closed,
    when no answer came.
    """
    last_period = False
    while True:
        with trio.move_on_after(connection.grace_s, shield=True):
            return await drive(operation, connection.pgconn.socket)
        if last_period:
            break
        last_period = trio.current_effective_deadline() <= trio.current_time()
    connection.give_up()
    raise psycopg.OperationalError("the server does not answer")


class TrioPipeline(psycopg.AsyncPipeline):
    """What `TrioConnection.pipeline()` hands out; leaving it on an error is bounded."""

    _conn: "TrioConnection"

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        if exc_val is None:
            # Not shielded: these may be statements that run for as long as they like.
            await super().__aexit__(None, None, None)  # noqa: ASYNC102
            return
        with trio.move_on_after(self._conn.grace_s, shield=True):
            await super().__aexit__(exc_type, exc_val, exc_tb)
            return
        self._conn.give_up()
