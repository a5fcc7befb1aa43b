"""One statement prepared once a session and then run by its name, for what runs all day long.

psycopg's cursors find out anew at each call how a statement is written, how its parameters are
adapted and whether it is prepared by now. The store's steps are few, never change, take texts and
answer one column of texts, so what a call needs is libpq's own: send, wait, read. The waiting stays
psycopg's protocol code, and so a call is cancelled and lost like any other statement (C59).

Behind a pooler that shares sessions nothing is prepared, as with cursors.
"""

from collections.abc import Generator, Sequence

import psycopg
from psycopg import generators
from psycopg.pq import ExecStatus
from psycopg.pq import abc as pq_abc

Texts = Sequence[bytes | None]
"""Values as libpq takes and gives them, null being `None`."""


class StatementCalls:
    """The statements that one session has prepared by their texts."""

    def __init__(self, pgconn: pq_abc.PGconn) -> None:
        self._pgconn = pgconn
        self._names: dict[bytes, bytes] = {}

    def call(
        self, statement: bytes, parameters: Texts, *, prepared: bool
    ) -> Generator[int, int, Sequence[bytes | None]]:
        """Run a statement whose parameters are `$1`, `$2`, …; gives its rows' first column.

        Raises the psycopg.Error of what the server refused, or psycopg.OperationalError with the
        connection lost.
        """
        if prepared:
            name = self._names.get(statement)
            if name is None:
                name = yield from self._prepare(statement)
            self._pgconn.send_query_prepared(name, parameters)
        else:
            self._pgconn.send_query_params(statement, parameters)
        result = yield from self._result(ExecStatus.TUPLES_OK)
        return [result.get_value(row, 0) for row in range(result.ntuples)]

    def _prepare(self, statement: bytes) -> Generator[int, int, bytes]:
        name = b"step_%d" % len(self._names)
        self._pgconn.send_prepare(name, statement)
        yield from self._result(ExecStatus.COMMAND_OK)
        self._names[statement] = name
        return name

    def _result(self, wanted: ExecStatus) -> Generator[int, int, pq_abc.PGresult]:
        results: Sequence[pq_abc.PGresult] = yield from generators.execute(self._pgconn)
        if not results:
            raise psycopg.OperationalError("the server ended the session without an answer")
        if results[0].status != wanted:
            raise psycopg.errors.error_from_result(results[0], encoding="utf-8")
        return results[0]
