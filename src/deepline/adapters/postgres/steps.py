"""Calls the store's SQL functions: one round trip a step, many callers a round trip (DESIGN §5).

While a program is being cancelled its runs still commit their last facts, each shielded for a
moment. The tasks that carry their batches must outlive that, so they are shielded too, until
`stop` or until `OVERTIME_S` after the cancellation.
"""

import json
import math
from collections.abc import Mapping, Sequence

import psycopg
import trio
from psycopg import sql

from deepline.adapters.postgres.checkout import Purpose, purpose_of_query
from deepline.adapters.postgres.group_commit import GroupCommit
from deepline.adapters.postgres.pool import ConnectionPool
from deepline.core.model.json_value import Json
from deepline.ports.errors import Refused, Unavailable
from deepline.ports.wire import encode_json

Row = tuple[object, ...]
Argument = bool | int | str

OVERTIME_S = 30
"""How long batches are carried after the block of the store was cancelled."""


class Steps:
    """The functions of one schema over one pool.

    `write` shares a transaction with whoever asks for the same step meanwhile; `call` and `read`
    have one of their own. Errors are those of C59, and `Refused` (`unstorable`) for a value that
    the database cannot hold.
    """

    def __init__(self, pool: ConnectionPool, schema: str) -> None:
        self._pool = pool
        self.schema = schema
        self._groups: dict[tuple[object, ...], GroupCommit] = {}
        self._nursery: trio.Nursery | None = None
        self._scopes: list[trio.CancelScope] = []
        self._ends_at = math.inf
        # Composing a query costs about as much as sending it.
        self._queries: dict[tuple[str, ...], bytes] = {}
        self._purposes: dict[str, Purpose] = {}

    def start(self, nursery: trio.Nursery) -> None:
        """Let the carriers of batches live in `nursery`, from their first use until `stop`."""
        self._nursery = nursery
        nursery.start_soon(self._limit_overtime)

    def stop(self) -> None:
        """End the carriers."""
        self._nursery = None
        for scope in self._scopes:
            scope.cancel()

    async def write(self, function: str, request: Mapping[str, Json], *arguments: Argument) -> Json:
        """Ask one step for one request and return its answer.

        `arguments` go to the function as they are; requests with equal ones share transactions.
        Cancelled before it is sent, nothing happens; later, the outcome is unknown.
        """
        encoded = encode_json(request)
        group = self._groups.get((function, *arguments))
        if group is None:
            group = self._open_group(function, arguments)
        try:
            return await group.ask(encoded)
        except psycopg.DataError as error:
            raise _unstorable(error) from error

    async def write_together(
        self, function: str, requests: Sequence[Mapping[str, Json]], *arguments: Argument
    ) -> Sequence[Json]:
        """Call one step with all requests in one transaction of their own."""
        try:
            return await self._send(
                function, [encode_json(request) for request in requests], arguments
            )
        except psycopg.DataError as error:
            raise _unstorable(error) from error

    async def call(self, function: str, *arguments: object) -> Sequence[Row]:
        """Call a function that writes, in a transaction of its own; returns its rows."""
        query = self._select("*", function, *["%s"] * len(arguments))
        async with self._pool.lease(writes=True, purpose=Purpose(function)) as connection:
            return await (await connection.execute(query, arguments)).fetchall()

    async def read(self, query: str, *arguments: object) -> Sequence[Row]:
        """Run a query that only reads; `{schema}` in it becomes the schema's name."""
        composed = self._queries.get((query,))
        if composed is None:
            composed = sql.SQL(query).format(schema=sql.Identifier(self.schema)).as_bytes()
            self._queries[query,] = composed
            self._purposes[query] = purpose_of_query(query)
        async with self._pool.lease(purpose=self._purposes[query]) as connection:
            return await (await connection.execute(composed, arguments)).fetchall()

    def _open_group(self, function: str, arguments: Sequence[Argument]) -> GroupCommit:
        async def send(requests: Sequence[str]) -> Sequence[Json]:
            return await self._send(function, requests, arguments)

        if self._nursery is None:
            raise Unavailable("the store is closed")
        group = GroupCommit(send)
        self._groups[function, *arguments] = group
        scope = trio.CancelScope(shield=True, deadline=self._ends_at)
        self._scopes.append(scope)
        self._nursery.start_soon(_carry, group, scope)
        return group

    async def _limit_overtime(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self._ends_at = trio.current_time() + OVERTIME_S
            for scope in self._scopes:
                scope.deadline = self._ends_at

    async def _send(
        self, function: str, requests: Sequence[str], arguments: Sequence[Argument]
    ) -> Sequence[Json]:
        places = [f"${place}" for place in range(1, len(arguments) + 2)]
        statement = self._select("answer", function, *places)
        texts = [f"[{','.join(requests)}]", *map(_text, arguments)]
        purpose = Purpose(function, requests)
        async with self._pool.lease(writes=True, purpose=purpose) as connection:
            answers = await connection.call(statement, [text.encode() for text in texts])
        return [None if answer is None else json.loads(answer) for answer in answers]

    def _select(self, columns: str, function: str, *places: str) -> bytes:
        known = self._queries.get((columns, function, *places))
        if known is None:
            text = sql.SQL(f"select {columns} from {{}}({', '.join(places)})")  # noqa: S608
            known = text.format(sql.Identifier(self.schema, function)).as_bytes()
            self._queries[columns, function, *places] = known
        return known


def _text(argument: Argument) -> str:
    """As Postgres reads it, whatever the type of the function's parameter."""
    return str(argument).lower() if isinstance(argument, bool) else str(argument)


async def _carry(group: GroupCommit, scope: trio.CancelScope) -> None:
    with scope:
        await group.run()


def _unstorable(error: psycopg.DataError) -> Refused:
    return Refused("unstorable", f"the database cannot hold this value (SQLSTATE {error.sqlstate})")
