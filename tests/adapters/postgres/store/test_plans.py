"""Steps find their rows by indexes, however a session came by its plans (0011_plans.sql)."""

from collections.abc import Mapping

from tests.support.store import StoreBench, store_bench

ROUNDS = 8
_TABLES = ("attempts", "launches", "outbox", "r_runs", "runs", "t_runs")
_READS = """
    select relname, seq_scan from pg_stat_user_tables
     where schemaname in ('deepline', 'absurd') and relname = any (%s)
"""
_STEPS_WITHOUT_SETTINGS = """
    select p.proname from pg_proc p join pg_language l on l.oid = p.prolang
     where p.pronamespace = 'deepline'::regnamespace and l.lanname = 'plpgsql'
       and 'answer' = any (p.proargnames) and p.proconfig is null
"""


async def work_off(bench: StoreBench, first: int) -> None:
    """Bring some runs from their submission to their end, on the store's only connection."""
    for number in range(first, first + ROUNDS):
        await bench.commit(await bench.started(f"run-{number}"))


async def whole_reads(bench: StoreBench) -> Mapping[str, int]:
    """How often each table was read as a whole so far."""
    await bench.rows("select pg_stat_force_next_flush()")
    return dict(await bench.rows(_READS, list(_TABLES)))


async def test_no_step_reads_a_whole_table(migrated_database: str) -> None:
    """Plans made while the tables were empty stay right when they have grown."""
    async with store_bench(migrated_database, size=1) as bench:
        await work_off(bench, 0)
        before = await whole_reads(bench)

        await work_off(bench, ROUNDS)

        assert await whole_reads(bench) == before


async def test_every_step_is_planned_that_way(bench: StoreBench) -> None:
    """A function that answers requests has the settings, whichever migration made it."""
    assert await bench.rows(_STEPS_WITHOUT_SETTINGS) == []
