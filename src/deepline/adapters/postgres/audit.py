"""Looks whether the database of record keeps its own rules, changing nothing (I01–I31, I50, I51).

For operators after something terrible, and for tests after they made it happen. Everything is read
in one snapshot, so work that goes on meanwhile is no violation.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import attrs
import trio
from psycopg import sql

from deepline.adapters.postgres.audit_rules import RULES, Rule
from deepline.adapters.postgres.classify import port_errors
from deepline.adapters.postgres.connection import TrioConnection
from deepline.adapters.postgres.migrate import DEFAULT_SCHEMA
from deepline.adapters.postgres.opening import open_connection
from deepline.adapters.postgres.settings import ConnectionSettings
from deepline.core.model.ledger import TERMINAL_KINDS
from deepline.core.model.sandbox import PROVES_GONE

SHOWN_PER_RULE = 100
_CLOSE_S = 5


@attrs.frozen
class Violation:
    """One place where a rule is broken; `run_id` is `None` where no run is known.

    `holds` are the invariants that are broken with it.
    """

    rule: str
    run_id: str | None
    says: str
    holds: Sequence[str] = ()

    def __str__(self) -> str:
        """As an operator reads it."""
        broken = f" ({', '.join(self.holds)})" if self.holds else ""
        return f"{self.rule}{broken}: run {self.run_id}: {self.says}"


async def audit(
    dsn: str, schema: str = DEFAULT_SCHEMA, *, settled: bool = False
) -> Sequence[Violation]:
    """Check every rule; at most a hundred violations of each are answered.

    With `settled` also those that hold only once all runs have ended and every duty is done. Raises
    the errors of C59. It reads whole tables; how long that may take is the caller's to say.
    """
    found: list[Violation] = []
    with port_errors():
        async with _snapshot(dsn) as connection:
            lanes = await _lanes(connection, schema)
            for rule in RULES:
                if settled or not rule.settled:
                    for lane in lanes if rule.of_lanes else (None,):
                        found += await _violations(connection, schema, rule, lane)
    return found


@asynccontextmanager
async def _snapshot(dsn: str) -> AsyncIterator[TrioConnection]:
    connection = await open_connection(
        ConnectionSettings(
            dsn=dsn, application_name="deepline audit", statement_limit=timedelta(minutes=10)
        )
    )
    try:
        async with connection.transaction():
            await connection.execute("set transaction isolation level repeatable read read only")
            yield connection
    finally:
        with trio.move_on_after(_CLOSE_S, shield=True):
            await connection.close()


async def _lanes(connection: TrioConnection, schema: str) -> Sequence[str]:
    rows = await connection.execute(
        _filled(
            "select lane from {schema}.lanes"
            " where to_regclass(format('absurd.%I', 'r_' || lane)) is not null order by lane",
            schema=sql.Identifier(schema),
        )
    )
    return [lane for (lane,) in await rows.fetchall()]


async def _violations(
    connection: TrioConnection, schema: str, rule: Rule, lane: str | None
) -> Iterator[Violation]:
    parts: dict[str, sql.Composable] = {
        "schema": sql.Identifier(schema),
        "terminal_kinds": sql.Literal(list(TERMINAL_KINDS)),
        "proofs": sql.Literal(sorted(stage.value for stage in PROVES_GONE)),
    }
    if lane is not None:
        parts |= {
            "lane": sql.Literal(lane),
            "tasks": sql.Identifier("absurd", f"t_{lane}"),
            "engine_runs": sql.Identifier("absurd", f"r_{lane}"),
        }
    rows = await connection.execute(_filled(f"{rule.statement} limit {SHOWN_PER_RULE}", **parts))
    return (
        Violation(rule.name, run_id, says, rule.holds) for run_id, says in await rows.fetchall()
    )


def _filled(statement: str, **parts: sql.Composable) -> bytes:
    for name, part in parts.items():
        statement = statement.replace(f"{{{name}}}", part.as_string())
    return statement.encode()
