"""A psycopg connection that lives on Trio (C59).

Everything psycopg does, cursors, pipelines, COPY, streams, LISTEN, it does through
`connection.wait()`; this class brings its own and inherits the rest. What it adds is a promise
about cancellation: whatever a task was doing when it was cancelled, afterwards the connection is
either ready for the next statement or closed.

- A statement that is running is cancelled on the server as well, or it would go on, holding its
  locks, for as long as it likes. Its end is read, so that the cancel request can't hit the next
  statement. A server that does neither within `grace_s` loses the connection.
- A statement that is not sent yet when its task is cancelled is not sent.
- COMMIT and ROLLBACK are never cut: see `transaction`.

Private names of psycopg that are relied on: `wait`, `lock`, `_pipeline`, `_check_connection_ok`,
`_autocommit`, `_adapters`, `_num_transactions` and `errors._WaitTimeout`, beside the generators
of AsyncTransaction and AsyncPipeline.
"""

from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Self, TypeVar

import psycopg
import trio
from psycopg.abc import AdaptContext
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_attempts, conninfo_to_dict, make_conninfo
from psycopg.pq import ConnStatus, PGconn, TransactionStatus
from psycopg.pq import abc as pq_abc
from psycopg.rows import AsyncRowFactory

from deepline.adapters.postgres.lock import UncontendedLock
from deepline.adapters.postgres.statement_call import StatementCalls, Texts
from deepline.adapters.postgres.transaction import TrioPipeline, TrioTransaction
from deepline.adapters.postgres.waiting import drive, drive_for, drive_libpq
from deepline.ports.errors import Refused

GRACE_S = 5.0
_UNSETTLED = (TransactionStatus.ACTIVE, TransactionStatus.UNKNOWN)

_Result = TypeVar("_Result")
Row = tuple[Any, ...]
Parameters = dict[str, str | int | None]


class TrioConnection(psycopg.AsyncConnection[Row]):
    """One session. Several tasks may use it; their statements take turns.

    `grace_s` is how long a cancelled operation waits for the server to end it.
    `survives_cancel` is False behind a pooler, where a late cancel request might reach a session
    that by then serves somebody else.
    `outcome_in_doubt` becomes True when the connection is lost while a statement outside of any
    transaction block is under way: that statement may have committed.
    """

    grace_s: float = GRACE_S
    survives_cancel: bool = True
    outcome_in_doubt: bool = False

    def __init__(
        self, pgconn: pq_abc.PGconn, row_factory: AsyncRowFactory[Row] | None = None
    ) -> None:
        super().__init__(pgconn)
        self.row_factory = row_factory or self.row_factory
        self.lock = UncontendedLock()  # type: ignore[assignment]
        self._calls = StatementCalls(pgconn)

    @classmethod
    async def connect(  # type: ignore[override]
        cls,
        conninfo: str = "",
        *,
        autocommit: bool = False,
        prepare_threshold: int | None = 5,
        context: AdaptContext | None = None,
        row_factory: AsyncRowFactory[Row] | None = None,
        cursor_factory: type[psycopg.AsyncCursor[Row]] | None = None,
        parameters: Parameters | None = None,
        **kwargs: str | int | None,
    ) -> Self:
        """Connect to the first address that answers. How long to try is the caller's scope.

        Raises psycopg.OperationalError when none does, and Refused when the connection string
        can't be used at all; neither repeats the string.
        """
        failure: psycopg.Error | None = None
        for attempt in await _addresses(conninfo, {**(parameters or {}), **kwargs}):
            try:
                pgconn = await _connect(attempt)
            except psycopg.Error as error:
                failure = error
                continue
            connection = cls(pgconn, row_factory)
            connection._autocommit = autocommit
            connection.prepare_threshold = prepare_threshold
            if cursor_factory is not None:
                connection.cursor_factory = cursor_factory
            if context is not None:
                connection._adapters = AdaptersMap(context.adapters)
            return connection
        raise failure or psycopg.OperationalError("the connection string names no host")

    async def wait(
        self,
        gen: Generator[int, int, _Result],
        interval: float = 0.0,
        timeout: float | None = None,  # noqa: ASYNC109, psycopg's signature
    ) -> _Result:
        """Run one operation of psycopg's. Cancelled, it ends the operation on the server too."""
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            if timeout is None:
                return await drive(gen, self.pgconn.socket)
            return await drive_for(gen, self.pgconn.socket, timeout)
        except (trio.Cancelled, KeyboardInterrupt):
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                settled = False
                with trio.move_on_after(self.grace_s, shield=True):
                    settled = await self._cancel_and_drain(gen)
                if not settled or not self.survives_cancel:
                    self.give_up()
            raise
        except psycopg.Error:
            if self.closed and self._num_transactions == 0:
                self.outcome_in_doubt = True
            raise

    async def call(self, statement: bytes, parameters: Texts) -> Sequence[bytes | None]:
        """Run a statement with `$1`, `$2`, … in it; gives its rows' first column, as UTF-8.

        For autocommit mode: it begins no transaction. Raises and is cancelled as `execute` is.
        """
        prepared = self.prepare_threshold is not None
        async with self.lock:
            return await self.wait(self._calls.call(statement, parameters, prepared=prepared))

    async def _cancel_and_drain(self, operation: Generator[int, int, object]) -> bool:
        """Have the server stop, and read the end of the operation. False if that failed."""
        try:
            await self.cancel_safe(timeout=self.grace_s)
        except psycopg.Error:
            return False
        # Usually QueryCanceled; what matters is where it left the session.
        with suppress(psycopg.Error):
            await drive(operation, self.pgconn.socket)
        return self.pgconn.transaction_status not in _UNSETTLED

    async def cancel_safe(
        self,
        *,
        timeout: float = GRACE_S,  # noqa: ASYNC109, psycopg's signature
    ) -> None:
        """Ask the server to cancel what this session is running, encrypted as the session is.

        Raises psycopg.errors.CancellationTimeout when the request gets no answer in time.
        """
        if self.closed:
            return
        with trio.move_on_after(timeout, shield=True):
            request = self.pgconn.cancel_conn()
            request.start()
            await drive_libpq(request, request.poll)
            return
        raise psycopg.errors.CancellationTimeout("no answer to the cancel request")

    async def close(self) -> None:
        """Hang up. A task that waits on this connection gets an OperationalError."""
        self.give_up()
        await super().close()

    def give_up(self) -> None:
        """Hang up at once, whatever is under way. Harmless when closed already."""
        if self.pgconn.status != ConnStatus.BAD:
            trio.lowlevel.notify_closing(self.pgconn.socket)
        self.pgconn.finish()

    @asynccontextmanager
    async def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002, psycopg's signature
    ) -> AsyncIterator[TrioTransaction]:
        """BEGIN and COMMIT around a block, or ROLLBACK on an error; inside another, a savepoint.

        Raises CommitOutcomeUnknown when COMMIT was sent and not answered.
        """
        transaction = TrioTransaction(self, savepoint_name, force_rollback)
        if self._pipeline:
            async with self.pipeline(), transaction, self.pipeline():
                yield transaction
        else:
            async with transaction:
                yield transaction

    @asynccontextmanager
    async def pipeline(self) -> AsyncIterator[TrioPipeline]:
        """Send the statements of a block without waiting for each answer."""
        async with self.lock:
            self._check_connection_ok()
            pipeline = self._pipeline
            if pipeline is None:
                pipeline = self._pipeline = TrioPipeline(self)
        assert isinstance(pipeline, TrioPipeline)
        try:
            async with pipeline:
                yield pipeline
        finally:
            if pipeline.level == 0:
                self._pipeline = None


async def _addresses(conninfo: str, parameters: Parameters) -> list[Parameters]:
    """One set of parameters for each address to try, host names resolved (in a thread)."""
    try:
        known = conninfo_to_dict(conninfo, **parameters)
    except psycopg.ProgrammingError:
        # psycopg quotes the part that it can't read, which may be a piece of the password.
        raise Refused(
            "database_connection_string",
            "The Postgres connection string can't be read. Write "
            "postgresql://user:password@host:5432/database, with special characters of the "
            "password percent-encoded.",
        ) from None
    try:
        return await trio.to_thread.run_sync(conninfo_attempts, known, abandon_on_cancel=True)
    except psycopg.OperationalError:
        # With an unescaped @ in the password, what looks like the host is a piece of it.
        raise psycopg.OperationalError("the database's host name can't be resolved") from None


async def _connect(attempt: Parameters) -> pq_abc.PGconn:
    pgconn = PGconn.connect_start(make_conninfo("", **attempt).encode())
    if pgconn.status == ConnStatus.BAD:
        message = _why_not_started(pgconn.get_error_message())
        pgconn.finish()
        raise psycopg.OperationalError(message)
    try:
        await drive_libpq(pgconn, pgconn.connect_poll)
    except BaseException:
        pgconn.finish()
        raise
    pgconn.nonblocking = 1
    return pgconn


def _why_not_started(message: str) -> str:
    """What libpq says, unless it is about a parameter: then it may quote a piece of a password."""
    if message.startswith("connection to server"):
        return message
    return "the connection could not be started; check the Postgres connection string"
