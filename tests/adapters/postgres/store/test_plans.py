"""Steps find their rows by keys, however a session came by its plans (0100_plans.sql)."""

from collections.abc import Mapping

import trio

from tests.support.store import StoreBench, store_bench, submission

ROUNDS = 8
MANY = 600
READS_MAX = 100
"""Rows of one table that the life of one run may read, of whatever version."""
_READS = """
    select schemaname || '.' || relname, coalesce(seq_tup_read, 0) + coalesce(idx_read, 0)
      from pg_stat_user_tables t
      left join lateral (
          select sum(i.idx_tup_read) as idx_read from pg_stat_user_indexes i
           where i.relid = t.relid) i on true
     where schemaname in ('deepline', 'absurd')
"""
_STEPS_WITHOUT_SETTINGS = """
    select p.proname from pg_proc p join pg_language l on l.oid = p.prolang
     where p.pronamespace = 'deepline'::regnamespace and l.lanname = 'plpgsql'
       and 'answer' = any (p.proargnames) and p.proconfig is null
"""


async def test_a_step_reads_what_it_works_on(migrated_database: str) -> None:
    """Plans made while the tables were empty read no whole table when those have grown."""
    async with store_bench(migrated_database, size=1) as bench:
        for number in range(ROUNDS):
            await bench.commit(await bench.started(f"early-{number}"))
        await _many_runs(migrated_database)
        # Entries of dead row versions are read once more and marked as dead, but only when no
        # session can still see them; so what counts is the life that read the least.
        lives = [await _read_by_one_life(bench, f"late-{number}") for number in range(5)]

        assert {table: count for table, count in lives[0].items() if count} != {}
        least = {table: min(life[table] for life in lives) for table in lives[0]}
        assert {table: count for table, count in least.items() if count > READS_MAX} == {}


async def _read_by_one_life(bench: StoreBench, run_id: str) -> Mapping[str, int]:
    before = await _reads(bench)
    await bench.commit(await bench.started(run_id))
    after = await _reads(bench)
    return {table: int(count - before[table]) for table, count in after.items()}


async def test_every_step_is_planned_that_way(bench: StoreBench) -> None:
    """A function that answers requests has the settings, whichever migration made it."""
    assert await bench.rows(_STEPS_WITHOUT_SETTINGS) == []


async def _many_runs(dsn: str) -> None:
    """Half of them ended, half of them queued, by other sessions."""
    async with store_bench(dsn) as others:
        await others.store.admission.submit(
            [submission(f"many-{number}") for number in range(MANY)], project_created=True
        )
        claimed = await others.claim_all_fresh(MANY // 2)
        async with trio.open_nursery() as nursery:
            for work in claimed:
                nursery.start_soon(others.commit, work)


async def _reads(bench: StoreBench) -> Mapping[str, int]:
    """How many rows of each table were read so far."""
    await bench.rows("select pg_stat_force_next_flush()")
    return dict(await bench.rows(_READS))
