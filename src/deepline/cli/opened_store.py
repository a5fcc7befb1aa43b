"""Opening the store of record for a role: schema check, pool, ports (C02, C03)."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio

from deepline.adapters.postgres.checkout import SlowCheckout
from deepline.adapters.postgres.migrate import schema_state
from deepline.adapters.postgres.pool import ConnectionPool, PoolCounts
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings
from deepline.adapters.postgres.store import PostgresStore, open_store
from deepline.cli.fault_point import arm
from deepline.cli.settings.parts import StoreSettings
from deepline.core.limits import Limits
from deepline.ports.errors import Unavailable
from deepline.ports.telemetry import Telemetry

CHANNEL = "absurd-runtime.host"
BOOT_S = 30.0
"""How long a role waits for its database before it refuses to start."""


@attrs.frozen(kw_only=True)
class OpenedStore:
    """The ports of an open store; `counts` of its pool, `probe` returns if the store answers."""

    ports: PostgresStore
    counts: Callable[[], PoolCounts]
    probe: Callable[[], Coroutine[object, object, None]]


async def check_schema(settings: StoreSettings) -> None:
    """Refuse a database that this release cannot work on, changing nothing.

    Raises `SchemaNewer`, `SchemaBehind`, and `Unavailable` after half a minute.
    """
    with trio.move_on_after(BOOT_S):
        (await schema_state(settings.dsn, settings.schema)).check()
        return
    raise Unavailable(f"the database did not answer within {BOOT_S:.0f} s")


def _tell_slow(telemetry: Telemetry, slow: SlowCheckout) -> None:
    telemetry.warn(
        CHANNEL,
        "slow_checkout",
        phase=slow.phase,
        runId=slow.run_id,
        requests=slow.requests,
        waitedMs=round(slow.waited_s * 1000),
        heldMs=round(slow.held_s * 1000),
    )


@asynccontextmanager
async def opened_store(
    settings: StoreSettings, limits: Limits, telemetry: Telemetry, *, who: str
) -> AsyncIterator[OpenedStore]:
    """The store for the length of a block; `who` is how the database names our sessions."""
    connection = ConnectionSettings(
        dsn=settings.dsn,
        through_pooler=settings.through_pooler,
        application_name=f"deepline {who}",
    )
    listening = attrs.evolve(
        connection, dsn=settings.listen_dsn or settings.dsn, through_pooler=False
    )
    if settings.through_pooler and settings.listen_dsn is None:
        telemetry.warn(
            CHANNEL,
            "notifications_unavailable",
            advice="set DEEPLINE_POSTGRES_LISTEN to reach the database past its pooler; "
            "until then work is found by polling",
        )
        listening = connection
    pool = ConnectionPool.to(
        connection,
        PoolSettings(size=settings.connections),
        waited=partial(telemetry.observe, "pool_wait_s"),
        told=partial(_tell_slow, telemetry),
    )

    async def probe() -> None:
        async with pool.lease() as lent:
            await lent.execute("select 1")

    async with (
        pool,
        open_store(
            pool,
            listening=listening,
            schema=settings.schema,
            limits=limits,
            count=telemetry.count,
        ) as ports,
    ):
        if settings.fault_point is not None:
            telemetry.warn(CHANNEL, "test_fault_armed", call=str(settings.fault_point))
            arm(ports, settings.fault_point)
        yield OpenedStore(ports=ports, counts=pool.counts, probe=probe)
