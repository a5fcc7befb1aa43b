"""Opens the store of record: its ports over one pool, with the carriers of their batches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from deepline.adapters.absurd.engine import AbsurdEngine
from deepline.adapters.postgres.admission import PostgresAdmission
from deepline.adapters.postgres.api_keys import PostgresApiKeys
from deepline.adapters.postgres.attempts import PostgresAttempts
from deepline.adapters.postgres.capacity import PostgresCapacity
from deepline.adapters.postgres.census import PostgresCensus
from deepline.adapters.postgres.cleanup import PostgresCleanup
from deepline.adapters.postgres.crash_diagnostics import PostgresCrashDiagnostics
from deepline.adapters.postgres.dead_letters import PostgresDeadLetters
from deepline.adapters.postgres.duties import PostgresDuties
from deepline.adapters.postgres.lanes import PostgresLanes
from deepline.adapters.postgres.launches import Count, PostgresLaunches, count_nothing
from deepline.adapters.postgres.liveness import PostgresLiveness
from deepline.adapters.postgres.liveness_work import PostgresLivenessWork
from deepline.adapters.postgres.migrate import DEFAULT_SCHEMA
from deepline.adapters.postgres.outbox import PostgresOutbox
from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.receipts import PostgresReceipts
from deepline.adapters.postgres.recovery import PostgresRecovery
from deepline.adapters.postgres.run_events import PostgresRunEvents
from deepline.adapters.postgres.runs import PostgresRuns
from deepline.adapters.postgres.sandboxes import PostgresSandboxes
from deepline.adapters.postgres.secrets import PostgresSecrets
from deepline.adapters.postgres.settings import ConnectionSettings
from deepline.adapters.postgres.sheets import PostgresSheets
from deepline.adapters.postgres.signals import PostgresSignals
from deepline.adapters.postgres.steps import Steps
from deepline.adapters.postgres.terminals import PostgresTerminals
from deepline.adapters.postgres.usage import PostgresUsage
from deepline.core.limits import Limits


@attrs.frozen(kw_only=True)
class PostgresStore:
    """The ports that Postgres and the engine on it implement."""

    admission: PostgresAdmission
    attempts: PostgresAttempts
    terminals: PostgresTerminals
    liveness: PostgresLiveness
    liveness_work: PostgresLivenessWork
    duties: PostgresDuties
    signals: PostgresSignals
    outbox: PostgresOutbox
    cleanup: PostgresCleanup
    capacity: PostgresCapacity
    census: PostgresCensus
    recovery: PostgresRecovery
    dead_letters: PostgresDeadLetters
    crash_diagnostics: PostgresCrashDiagnostics
    usage: PostgresUsage
    sheets: PostgresSheets
    receipts: PostgresReceipts
    runs: PostgresRuns
    sandboxes: PostgresSandboxes
    secrets: PostgresSecrets
    run_events: PostgresRunEvents
    api_keys: PostgresApiKeys
    launches: PostgresLaunches
    lanes: PostgresLanes
    engine: AbsurdEngine
    steps: Steps


@asynccontextmanager
async def open_store(
    pool: ConnectionPool,
    *,
    listening: ConnectionSettings,
    schema: str = DEFAULT_SCHEMA,
    limits: Limits | None = None,
    count: Count = count_nothing,
) -> AsyncIterator[PostgresStore]:
    """The store for the length of a block, which must be inside the pool's.

    `count` is told of launch reads, for the metrics (C58).

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
                attempts=PostgresAttempts(steps, bounds, engine.remember_org_limit, count),
                terminals=PostgresTerminals(steps),
                liveness=PostgresLiveness(steps),
                liveness_work=PostgresLivenessWork(steps),
                duties=PostgresDuties(steps),
                signals=PostgresSignals(steps),
                outbox=PostgresOutbox(steps),
                cleanup=PostgresCleanup(steps),
                capacity=PostgresCapacity(steps),
                census=PostgresCensus(steps),
                recovery=PostgresRecovery(steps),
                dead_letters=PostgresDeadLetters(steps),
                crash_diagnostics=PostgresCrashDiagnostics(steps),
                usage=PostgresUsage(steps),
                sheets=PostgresSheets(steps),
                receipts=PostgresReceipts(steps),
                runs=PostgresRuns(steps),
                sandboxes=PostgresSandboxes(steps),
                secrets=PostgresSecrets(steps),
                run_events=PostgresRunEvents(steps),
                api_keys=PostgresApiKeys(steps),
                launches=PostgresLaunches(steps, count),
                lanes=PostgresLanes(steps),
                engine=engine,
                steps=steps,
            )
        finally:
            steps.stop()
            carriers.cancel_scope.cancel()
