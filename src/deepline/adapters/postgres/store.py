"""Opens the store of record: its ports over one pool, with the carriers of their batches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from deepline.adapters.absurd.engine import AbsurdEngine
from deepline.adapters.postgres.admission import PostgresAdmission
from deepline.adapters.postgres.attempts import PostgresAttempts
from deepline.adapters.postgres.liveness import PostgresLiveness
from deepline.adapters.postgres.migrate import DEFAULT_SCHEMA
from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.settings import ConnectionSettings
from deepline.adapters.postgres.signals import PostgresSignals
from deepline.adapters.postgres.steps import Steps
from deepline.adapters.postgres.terminals import PostgresTerminals
from deepline.core.limits import Limits


@attrs.frozen(kw_only=True)
class PostgresStore:
    """The ports that Postgres and the engine on it implement."""

    admission: PostgresAdmission
    attempts: PostgresAttempts
    terminals: PostgresTerminals
    liveness: PostgresLiveness
    signals: PostgresSignals
    engine: AbsurdEngine
    steps: Steps


@asynccontextmanager
async def open_store(
    pool: ConnectionPool,
    *,
    listening: ConnectionSettings,
    schema: str = DEFAULT_SCHEMA,
    limits: Limits | None = None,
) -> AsyncIterator[PostgresStore]:
    """The store for the length of a block, which must be inside the pool's.

    Writes still work while the block is being cancelled, so that last facts can be committed;
    when the block is left, a write still under way is unknown to its asker.
    """
    steps = Steps(pool, schema)
    bounds = limits or Limits()
    engine = AbsurdEngine(steps, listening)
    async with trio.open_nursery() as carriers:
        steps.start(carriers)
        try:
            yield PostgresStore(
                admission=PostgresAdmission(steps, bounds),
                attempts=PostgresAttempts(steps, bounds, engine.remember_org_limit),
                terminals=PostgresTerminals(steps),
                liveness=PostgresLiveness(steps),
                signals=PostgresSignals(steps),
                engine=engine,
                steps=steps,
            )
        finally:
            steps.stop()
            carriers.cancel_scope.cancel()
