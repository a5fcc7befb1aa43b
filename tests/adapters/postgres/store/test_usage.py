"""Sandbox time on Postgres: written with what it belongs to, completed, summed up (C27, C55)."""

from datetime import UTC, datetime, timedelta

from deepline.core.model.identity import OrgId, RunId
from deepline.ports.cleanup import JobDone
from tests.support.store import SANDBOX, StoreBench

RUN = RunId("run")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def ended(bench: StoreBench, run_id: str = "run") -> None:
    """A run that ended, its sandbox not deleted yet."""
    work = await bench.parked(run_id)
    await bench.commit(work, from_waiting=True, claim=None)


async def test_a_sandboxs_time_begins_when_it_is_bound(bench: StoreBench) -> None:
    """A run's sandbox is in use from the moment it is recorded, until it is proven gone."""
    await bench.parked()

    [use] = await bench.store.usage.of_run(RUN)

    assert (use.run_id, use.attempt) == (RUN, 1)
    assert (use.provider, use.sandbox_id) == (SANDBOX.provider, SANDBOX.sandbox_id)
    assert use.started_at == await bench.row("select bound_at from deepline.sandbox_operations")
    assert use.ended_at is None


async def test_backfill_adds_what_an_ended_run_lacks(bench: StoreBench) -> None:
    """Missing times of an ended run are written from its operations, once."""
    await ended(bench)
    [job] = await bench.store.cleanup.claim(
        "cleaner", ["local"], limit=1, lease=timedelta(seconds=60)
    )
    await bench.store.cleanup.record_event(job, "provider_delete_accepted", {})
    acceptance = await bench.store.cleanup.acceptance(job)
    assert acceptance is not None
    await bench.store.cleanup.finish(job, JobDone())
    complete = await bench.store.usage.of_run(RUN)
    assert not await bench.store.usage.backfill(RUN)
    await bench.rows("delete from deepline.sandbox_usage")

    assert await bench.store.usage.backfill(RUN)

    assert await bench.store.usage.of_run(RUN) == complete
    assert complete[0].ended_at == acceptance.accepted_at
    assert not await bench.store.usage.backfill(RUN)


async def test_backfill_leaves_an_open_end_open(bench: StoreBench) -> None:
    """A sandbox that is not proven gone has no end, whoever writes its time down."""
    await ended(bench)
    await bench.rows("delete from deepline.sandbox_usage")

    assert await bench.store.usage.backfill(RUN)

    [use] = await bench.store.usage.of_run(RUN)
    assert use.ended_at is None


async def test_backfill_waits_for_the_end(bench: StoreBench) -> None:
    """Of a run that has not ended, or is unknown, nothing is added."""
    await bench.parked()
    await bench.rows("delete from deepline.sandbox_usage")

    assert not await bench.store.usage.backfill(RUN)
    assert not await bench.store.usage.backfill(RunId("unknown"))


async def test_an_organisations_seconds_are_those_that_ended(bench: StoreBench) -> None:
    """The sum holds whole times that ended since then, of this organisation alone."""
    for run_id, org, hours in (("a", "org", 1), ("b", "org", 2), ("c", "other", 4)):
        await bench.rows(
            "insert into deepline.sandbox_usage values"
            " (%s, 1, %s, 'local', 'sandbox', timestamptz '2026-01-01 00:00Z',"
            "  timestamptz '2026-01-01 00:00Z' + %s)",
            run_id,
            org,
            timedelta(hours=hours),
        )
    await bench.parked()
    usage, org = bench.store.usage, OrgId("org")

    assert await usage.of_organisation(org, since=LONG_AGO) == 3 * 3600
    two_o_clock = datetime(2026, 1, 1, 2, tzinfo=UTC)
    assert await usage.of_organisation(org, since=two_o_clock) == 2 * 3600
    assert await usage.of_organisation(OrgId("nobody"), since=LONG_AGO) == 0
