"""Pools for tests, and what they count."""

from datetime import timedelta

from deepline.adapters.postgres.pool import ConnectionPool, PoolCounts
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings


def pool_to(dsn: str, *, through_pooler: bool = False, **settings: object) -> ConnectionPool:
    """A pool with little patience for a silent server."""
    return ConnectionPool.to(
        ConnectionSettings(
            dsn=dsn, through_pooler=through_pooler, grace=timedelta(milliseconds=300)
        ),
        PoolSettings(**settings),  # type: ignore[arg-type]
    )


def counts(**changed: int) -> PoolCounts:
    """Counts that are nothing but what is named."""
    nothing = dict.fromkeys(PoolCounts.__annotations__, 0)
    return PoolCounts(**{**nothing, **changed})


async def backend(pool: ConnectionPool) -> int:
    """Which session the pool lends at this moment."""
    async with pool.lease() as connection:
        return connection.info.backend_pid
