"""The engine's own operations: leases, due times, hints (ENGINE §3, L12)."""

from datetime import UTC, datetime, timedelta

import attrs
import pytest
import trio

from deepline.adapters.absurd.engine import AbsurdEngine
from deepline.adapters.postgres.settings import ConnectionSettings
from deepline.core.model.heartbeat import NoFence
from deepline.core.model.identity import Lane, RunId
from deepline.ports.engine import Wakeups
from deepline.ports.errors import Unavailable
from tests.support.store import LANE, OUTPUT, WHY, StoreBench, key_of, submission

MINUTE = timedelta(seconds=60)


async def lease_left_s(bench: StoreBench) -> float:
    """Seconds until the only claim runs out."""
    return float(
        await bench.row(
            "select extract(epoch from claim_expires_at - clock_timestamp()) from absurd.r_runs"
        )
    )


async def test_a_held_claim_is_extended(bench: StoreBench) -> None:
    """Extending moves the end of the lease, counted from the database's now."""
    work = await bench.started()

    assert await bench.store.engine.extend([work.claim], timedelta(seconds=600)) == []

    assert 590 < await lease_left_s(bench) <= 600
    assert await bench.store.engine.extend([], MINUTE) == []


async def test_lost_claims_are_told_and_not_extended(bench: StoreBench) -> None:
    """Of many claims the lost ones come back, whoever has their run now (ENGINE §2)."""
    for number in range(3):
        await bench.submit(f"run-{number}")
    kept, ended, stolen = [work.claim for work in await bench.claim(quantity=3)]
    await bench.store.engine.complete(ended)
    stale = attrs.evolve(stolen, owner="stale")

    lost = await bench.store.engine.extend([stale, kept, ended], timedelta(seconds=600))

    assert lost == [stale, ended]
    impostor = attrs.evolve(kept, owner="impostor")
    assert await bench.store.engine.extend([kept, impostor], MINUTE * 10) == [impostor]
    expiry = "select claim_expires_at from absurd.r_runs where run_id = %s"
    assert await bench.row(expiry, stolen.engine_run_id) < await bench.row(
        expiry, kept.engine_run_id
    )


async def test_extending_waits_for_nobody(bench: StoreBench) -> None:
    """A claim whose row another transaction holds is passed over, not waited for, and not lost."""
    work = await bench.started()
    async with bench.pool.lease() as connection, connection.transaction():
        await connection.execute("select 1 from absurd.r_runs for update")
        with trio.fail_after(5):
            assert await bench.store.engine.extend([work.claim], MINUTE) == []


async def test_the_lease_follows_the_engines_clock(bench: StoreBench) -> None:
    """The engine's faked clock, where one is set, is the clock of extensions too."""
    work = await bench.started()
    async with bench.pool.lease() as connection, connection.transaction():
        await connection.execute("set local absurd.fake_now = '2040-01-01T00:00:00Z'")
        await connection.execute(
            "select deepline.extend_claims(jsonb_build_array(jsonb_build_object("
            "'lane', 'runs', 'engine_run_id', %s::text, 'owner', %s::text)), 60)",
            (work.claim.engine_run_id, work.claim.owner),
        )

    assert await bench.row("select claim_expires_at from absurd.r_runs") == datetime(
        2040, 1, 1, 0, 1, tzinfo=UTC
    )


async def test_an_empty_lane_plans_nothing(bench: StoreBench) -> None:
    """Without work there is no due time, nor on a lane that does not exist."""
    assert await bench.store.engine.next_due(LANE) is None
    assert await bench.store.engine.next_due(Lane("nowhere")) is None


async def test_queued_work_is_due_now(bench: StoreBench) -> None:
    """Work that an admission could let through counts as due."""
    await bench.submit()

    assert await bench.store.engine.next_due(LANE) == timedelta(0)


async def test_held_back_work_is_not_due(bench: StoreBench) -> None:
    """Work of an organisation at its limit cannot be admitted, so nobody is called for it."""
    await bench.submit("one")
    await bench.submit("two")
    await bench.claim(org_limit=1)

    due = await bench.store.engine.next_due(LANE)

    assert due is not None
    assert timedelta(seconds=50) < due <= MINUTE
    await bench.store.admission.submit([submission("small", org="small")])
    assert await bench.store.engine.next_due(LANE) == timedelta(0)


async def test_a_sleeping_run_is_due_at_its_time(bench: StoreBench) -> None:
    """The next due time is the first of sleeping runs and of leases that may run out."""
    work = await bench.started()
    await bench.park(work, until=datetime.now(UTC) + timedelta(seconds=20))

    due = await bench.store.engine.next_due(LANE)

    assert due is not None
    assert timedelta(seconds=15) < due <= timedelta(seconds=20)


async def test_what_is_overdue_is_due_now_and_never_before(bench: StoreBench) -> None:
    """A due time in the past is nothing to wait for, and not negative."""
    work = await bench.started()
    await bench.park(work, until=datetime(2020, 1, 1, tzinfo=UTC))

    assert await bench.store.engine.next_due(LANE) == timedelta(0)


async def test_a_failed_claim_spends_an_attempt_and_backs_off(bench: StoreBench) -> None:
    """Failing makes the next engine attempt, due after the backoff (Q02)."""
    work = await bench.started()

    assert await bench.store.engine.fail(work.claim, "boom")

    assert not await bench.is_due()
    due = await bench.store.engine.next_due(LANE)
    assert due is not None
    assert timedelta(seconds=1) < due <= timedelta(seconds=2)
    await bench.make_due("run")
    assert (await bench.claim_fresh()).claim.engine_attempt == 2
    assert not await bench.store.engine.fail(work.claim, "again")


async def test_only_the_owner_completes_a_claim(bench: StoreBench) -> None:
    """A stale holder completes nothing, the owner once."""
    work = await bench.started()

    assert not await bench.store.engine.complete(attrs.evolve(work.claim, owner="stale"))
    assert await bench.store.engine.complete(work.claim)
    assert not await bench.store.engine.complete(work.claim)
    assert await bench.engine_state() == "completed"


class Heard:
    """Collects hints, and tells when as many came as a test waits for."""

    def __init__(self) -> None:
        self.sender, self.receiver = trio.open_memory_channel[tuple[str, str]](100)

    def wakeups(self) -> Wakeups:
        """Callables that note each hint."""
        return Wakeups(
            lane_woken=lambda lane: self.sender.send_nowait(("lane", lane)),
            run_cancelled=lambda run_id: self.sender.send_nowait(("cancelled", run_id)),
            run_ended=lambda run_id: self.sender.send_nowait(("ended", run_id)),
            rescan=lambda: self.sender.send_nowait(("rescan", "")),
        )

    async def take(self, count: int) -> set[tuple[str, str]]:
        """The next hints, in any order."""
        found: set[tuple[str, str]] = set()
        with trio.fail_after(10):
            for _ in range(count):
                found.add(await self.receiver.receive())
        return found


async def test_hints_tell_of_work_cancels_and_ends(bench: StoreBench) -> None:
    """A listener hears of new work, of a wake, of a cancel and of an end, after one rescan."""
    heard = Heard()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.store.engine.listen, heard.wakeups())
        assert await heard.take(1) == {("rescan", "")}
        work = await bench.started()
        assert await heard.take(1) == {("lane", LANE)}
        await bench.park(work)
        await bench.store.terminals.offer(key_of(work.attempt.ref), OUTPUT, NoFence(), WHY)
        assert await heard.take(1) == {("lane", LANE)}
        wake = await bench.claim_wake()
        await bench.commit(wake, from_waiting=True)
        assert await heard.take(1) == {("ended", "run")}
        await bench.submit("other")
        await bench.store.terminals.cancel(RunId("other"), by="p", reason="r", why=WHY)
        assert await heard.take(3) == {("lane", LANE), ("cancelled", "other"), ("ended", "other")}
        nursery.cancel_scope.cancel()


async def test_a_lost_line_is_said(bench: StoreBench) -> None:
    """When the connection that listens is ended, the listener raises `Unavailable`."""
    settings = ConnectionSettings(dsn=bench.dsn, application_name="to-be-ended")
    engine = AbsurdEngine(bench.store.steps, settings)
    heard = Heard()

    async def end_the_line() -> None:
        await heard.take(1)
        await bench.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'to-be-ended'"
        )

    with pytest.RaisesGroup(Unavailable):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_the_line)
            nursery.start_soon(engine.listen, heard.wakeups())
