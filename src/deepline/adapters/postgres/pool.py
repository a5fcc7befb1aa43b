"""A bounded set of connections, lent to one task at a time (C59).

- First come, first served: whoever waits longest gets the next slot.
- The connection used last is lent first, so that spare ones grow old and go.
- What comes back unfinished is rolled back; what can't be made idle again is closed. So a borrower
  never meets the transaction of another.
- There is a bound on who may wait and for how long; beyond it the caller is told to come back,
  which costs less than a queue that nobody gets through in time.
- A breaker stands before new connections only: while the server is away, connections that still
  work are lent as ever.

A session keeps no state from one borrower to the next, and nothing cleans it up: use SET LOCAL,
transaction-level advisory locks and ON COMMIT DROP. That is also what a pooler asks for.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Self

import attrs
import psycopg
import trio
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.waiting import Wait

from deepline.adapters.postgres import breaker, classify
from deepline.adapters.postgres.checkout import UNNAMED, Purpose, Told, slow_checkout
from deepline.adapters.postgres.connection import TrioConnection
from deepline.adapters.postgres.opening import open_connection
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings
from deepline.adapters.postgres.slots import Slots
from deepline.adapters.postgres.waiting import ready_now
from deepline.ports.errors import (
    CapacityExceeded,
    OutcomeUnknown,
    PortError,
    Unavailable,
    UnavailableKind,
)

SOURCE = "pool"
_UNFINISHED = (TransactionStatus.INTRANS, TransactionStatus.INERROR)

Connect = Callable[[], Awaitable[TrioConnection]]
Waited = Callable[[float], None]
"""Told of each loan how many seconds its borrower waited for a place and a connection."""


@attrs.frozen(kw_only=True)
class PoolCounts:
    """What the pool looks like at one moment. The rejections only ever grow."""

    total: int
    idle: int
    waiting: int
    capacity_rejections: int
    saturation_rejections: int
    breaker_rejections: int


@attrs.frozen
class _Idle:
    connection: TrioConnection
    opened_at_s: float


@attrs.define
class _Rejections:
    capacity: int = 0
    saturation: int = 0
    breaker: int = 0


class ConnectionPool:
    """Use it as a context manager; leaving it closes what is idle, the rest on its return."""

    def __init__(
        self,
        settings: PoolSettings,
        connect: Connect,
        waited: Waited | None = None,
        told: Told | None = None,
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._waited = waited
        self._told = told
        self._policy = breaker.BreakerPolicy(
            settings.failures_to_open, settings.open_for.total_seconds()
        )
        self._breaker: breaker.Breaker = breaker.Closed()
        self._slots = Slots(
            settings.size,
            waiters_max=settings.waiters_max,
            wait_s=settings.wait_limit.total_seconds(),
        )
        self._lifetime_s = settings.lifetime_max.total_seconds()
        self._idle: list[_Idle] = []
        self._lent = 0
        self._rejections = _Rejections()
        self._open = True

    @classmethod
    def to(
        cls,
        connection: ConnectionSettings,
        settings: PoolSettings | None = None,
        waited: Waited | None = None,
        told: Told | None = None,
    ) -> Self:
        """A pool of connections of one kind; `told` hears of loans that took long."""
        return cls(settings or PoolSettings(), partial(open_connection, connection), waited, told)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._open = False
        while self._idle:
            self._idle.pop().connection.give_up()

    def counts(self) -> PoolCounts:
        """For the metrics."""
        return PoolCounts(
            total=len(self._idle) + self._lent,
            idle=len(self._idle),
            waiting=self._slots.waiting,
            capacity_rejections=self._rejections.capacity,
            saturation_rejections=self._rejections.saturation,
            breaker_rejections=self._rejections.breaker,
        )

    def lease(self, *, writes: bool = False, purpose: Purpose = UNNAMED) -> "Lease":
        """Lend a connection in autocommit mode for the length of an `async with` block.

        `purpose` is told with the loan when it takes long.

        Failures of the database leave the block as port errors, classified in one place; anything
        else passes. With `writes`, a connection lost under a statement outside of any
        `transaction()` raises OutcomeUnknown, as that statement may have committed. A caller that
        cancels the block must take its autocommitted statement as unknown as well.

        Raises CapacityExceeded when there is no room, Unavailable when there is no connection.
        """
        return Lease(self, writes=writes, purpose=purpose)

    async def _lend(self) -> _Idle:
        asked_at = trio.current_time()
        if not await self._slots.acquire():
            self._rejections.saturation += 1
            raise CapacityExceeded(
                "every connection of the database pool is lent",
                self._settings.capacity_retry_after,
                SOURCE,
            )
        try:
            taken = await self._take()
        except BaseException:
            self._slots.release()
            raise
        self._lent += 1
        if self._waited is not None:
            self._waited(trio.current_time() - asked_at)
        return taken

    def _tell(self, purpose: Purpose, asked_at: float, lent_at: float) -> None:
        if self._told is None:
            return
        held_s = trio.current_time() - lent_at
        slow = slow_checkout(purpose, waited_s=lent_at - asked_at, held_s=held_s)
        if slow is not None:
            self._told(slow)

    def _take_back(self, taken: _Idle) -> None:
        """Keep the connection for the next borrower, or close it; free the slot."""
        self._lent -= 1
        if self._open and _is_ready(taken.connection) and self._is_young(taken):
            self._idle.append(taken)
        else:
            taken.connection.give_up()
        self._slots.release()

    async def _take(self) -> _Idle:
        if not self._open:
            raise Unavailable("the database pool is closed", UnavailableKind.CONNECTION)
        while self._idle:
            idle = self._idle.pop()
            if self._is_young(idle) and _is_quiet(idle.connection):
                return idle
            idle.connection.give_up()
        return _Idle(await self._open_connection(), trio.current_time())

    async def _open_connection(self) -> TrioConnection:
        match breaker.admit(self._breaker, trio.current_time()):
            case breaker.Rejected(rule):
                self._rejections.breaker += 1
                raise Unavailable(
                    f"the database did not answer lately and is left alone ({rule})",
                    UnavailableKind.CIRCUIT_OPEN,
                )
            case breaker.Admitted(state):
                self._breaker = state
        try:
            connection = await self._connect()
        except psycopg.Error as error:
            failure = classify.port_error(error, self._settings.capacity_retry_after)
            if isinstance(failure, CapacityExceeded):
                # A server that says it is full is there; it is not what the breaker is for.
                self._rejections.capacity += 1
                self._breaker = breaker.succeeded()
            else:
                self._breaker = breaker.failed(self._breaker, self._policy, trio.current_time())
            if failure is None:
                raise
            raise failure from error
        except BaseException:
            self._breaker = breaker.abandoned(self._breaker, trio.current_time())
            raise
        self._breaker = breaker.succeeded()
        return connection

    def _port_error(
        self, error: psycopg.Error, connection: TrioConnection, *, writes: bool
    ) -> PortError | None:
        if writes and connection.outcome_in_doubt:
            return OutcomeUnknown("the connection was lost under a statement that may have worked")
        failure = classify.port_error(error, self._settings.capacity_retry_after)
        if isinstance(failure, CapacityExceeded):
            self._rejections.capacity += 1
        return failure

    def _is_young(self, idle: _Idle) -> bool:
        return trio.current_time() - idle.opened_at_s < self._lifetime_s


class Lease:
    """One loan. A class rather than a generator, because it is entered for every statement."""

    __slots__ = ("_asked_at", "_lent_at", "_pool", "_purpose", "_taken", "_writes")

    def __init__(self, pool: ConnectionPool, *, writes: bool, purpose: Purpose) -> None:
        self._pool = pool
        self._writes = writes
        self._purpose = purpose
        self._asked_at = self._lent_at = 0.0
        self._taken: _Idle | None = None

    async def __aenter__(self) -> TrioConnection:
        assert self._taken is None, "a lease is entered once"
        self._asked_at = trio.current_time()
        self._taken = await self._pool._lend()  # noqa: SLF001, two halves of one thing
        self._lent_at = trio.current_time()
        return self._taken.connection

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._taken is not None
        taken, self._taken = self._taken, None
        try:
            if not _is_ready(taken.connection):
                with trio.move_on_after(taken.connection.grace_s, shield=True):
                    await _tidy(taken.connection)
        finally:
            self._pool._take_back(taken)  # noqa: SLF001
            self._pool._tell(self._purpose, self._asked_at, self._lent_at)  # noqa: SLF001
        if isinstance(error, psycopg.Error):
            failure = self._pool._port_error(  # noqa: SLF001
                error, taken.connection, writes=self._writes
            )
            if failure is not None:
                raise failure from error


async def _tidy(connection: TrioConnection) -> None:
    """Undo what a borrower left unfinished, if that is possible."""
    try:
        if connection.pgconn.transaction_status in _UNFINISHED:
            await connection.rollback()
        elif connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
            # A stream that was left half read: the connection is not worth keeping, but the
            # server would go on until it notices that we hung up.
            await connection.cancel_safe(timeout=connection.grace_s)
    except psycopg.Error:
        connection.give_up()


def _is_ready(connection: TrioConnection) -> bool:
    return (
        connection.pgconn.transaction_status == TransactionStatus.IDLE
        and connection.pgconn.pipeline_status == PipelineStatus.OFF
    )


def _is_quiet(connection: TrioConnection) -> bool:
    """Whether an idle connection still stands: one with something to read was hung up on."""
    return not connection.closed and not ready_now(connection.pgconn.socket, Wait.R)
