"""The outbox on Postgres: order, leases, acknowledgement, dispatchers that race (C26, I20–I22)."""

from collections.abc import Sequence
from datetime import timedelta

import trio
import trio.testing

from deepline.core.model.claim import CreatedPending
from deepline.core.model.identity import RunId
from deepline.ports.outbox import OutboxLease
from tests.support.races import listener, transaction, until_waiting
from tests.support.store import WHY, StoreBench, launch, store_bench

LEASE = timedelta(seconds=30)
RUN = RunId("run")


async def lease_due(bench: StoreBench, owner: str = "one", runs: int = 10) -> Sequence[OutboxLease]:
    """Lease what is due, many facts a run."""
    return await bench.store.outbox.lease_due(owner, runs=runs, lease=LEASE, facts_per_run=50)


async def lease_run(
    bench: StoreBench, run_id: str = "run", owner: str = "one", facts_per_run: int = 50
) -> OutboxLease | None:
    """Lease one run."""
    return await bench.store.outbox.lease_run(
        RunId(run_id), owner, lease=LEASE, facts_per_run=facts_per_run
    )


async def leased(bench: StoreBench, run_id: str = "run", owner: str = "one") -> OutboxLease:
    """Lease one run that must have something due."""
    lease = await lease_run(bench, run_id, owner)
    assert lease is not None
    return lease


async def add_facts(bench: StoreBench, count: int, run_id: str = "run") -> None:
    """Give the run so many facts behind its created fact."""
    await bench.rows(
        "insert into deepline.outbox (run_id, seq, event_id, kind, payload)"
        " select %s, 1 + n, %s || n, 'run.progress_settled', '{}' from generate_series(1, %s) n",
        run_id,
        f"{run_id}-fact-",
        count,
    )


async def expire_leases(bench: StoreBench) -> None:
    """Let the time of all leases pass."""
    await bench.rows("update deepline.outbox_leases set expires_at = '-infinity'")


def seqs(lease: OutboxLease) -> list[int]:
    """Which facts a lease holds."""
    return [fact.seq for fact in lease.facts]


async def test_a_lease_holds_the_launch_and_the_facts(bench: StoreBench) -> None:
    """A dispatcher gets the facts as they were written and the launch that says where they go."""
    await bench.submit(project_created=False)

    [lease] = await lease_due(bench)

    assert (lease.run_id, lease.owner, lease.attempts) == ("run", "one", 0)
    assert lease.launch == launch("run")
    [fact] = lease.facts
    assert (fact.seq, fact.event_id, fact.kind) == (1, "run-created:run", "run.created")
    assert fact.payload["playName"] == "play"
    assert fact.occurred_at == await bench.row("select occurred_at from deepline.outbox")


async def test_the_longest_due_is_leased_first(bench: StoreBench) -> None:
    """Runs are leased in the order in which their next facts became due, up to the bound."""
    for run_id, minutes in (("young", 1), ("old", 3), ("middle", 2)):
        await bench.submit(run_id, project_created=False)
        await bench.rows(
            "update deepline.outbox set due_at = now() - %s where run_id = %s",
            timedelta(minutes=minutes),
            run_id,
        )

    assert [lease.run_id for lease in await lease_due(bench, runs=2)] == ["old", "middle"]
    assert [lease.run_id for lease in await lease_due(bench)] == ["young"]


async def test_facts_come_in_order_and_in_bounded_number(bench: StoreBench) -> None:
    """A lease holds the next facts up to its bound; the rest comes when those are delivered."""
    await bench.submit(project_created=False)
    await add_facts(bench, 3)

    first = await lease_run(bench, facts_per_run=2)
    assert first is not None
    assert seqs(first) == [1, 2]
    assert await bench.store.outbox.delivered(first, through_seq=2)
    assert seqs(await leased(bench)) == [3, 4]


async def test_a_fact_put_off_holds_up_its_followers(bench: StoreBench) -> None:
    """What stands behind a fact that is not due is not leased, though it is due itself."""
    await bench.submit(project_created=False)
    await add_facts(bench, 3)
    await bench.rows("update deepline.outbox set due_at = 'infinity' where seq = 3")

    assert seqs(await leased(bench)) == [1, 2]
    await bench.rows("update deepline.outbox set due_at = 'infinity' where seq = 1")
    await expire_leases(bench)
    assert await lease_due(bench) == []
    assert await lease_run(bench) is None


async def test_a_dead_letter_holds_up_its_followers(bench: StoreBench) -> None:
    """A dead letter is leased no more and neither is what follows, until somebody revives it."""
    await bench.submit(project_created=False)
    await add_facts(bench, 1)
    lease = await leased(bench)

    assert await bench.store.outbox.failed(lease, error="410", delay=timedelta(0), dead=True)

    assert await lease_due(bench) == []
    assert await lease_run(bench) is None
    await bench.rows("update deepline.outbox set dead_at = null")
    assert seqs(await leased(bench)) == [1, 2]


async def test_a_leased_run_is_nobody_elses(bench: StoreBench) -> None:
    """While a lease lasts nobody gets the run, not even its owner; afterwards anybody does."""
    await bench.submit(project_created=False)
    lost = await leased(bench)

    assert await lease_run(bench, owner="two") is None
    assert await lease_run(bench, owner="one") is None
    assert await lease_due(bench, "two") == []
    await expire_leases(bench)
    [taken] = await lease_due(bench, "two")

    assert not await bench.store.outbox.delivered(lost, through_seq=1)
    assert not await bench.store.outbox.failed(lost, error="late", delay=LEASE, dead=True)
    assert await bench.row("select attempts, delivered_at, dead_at from deepline.outbox") == (
        0,
        None,
        None,
    )
    assert await bench.store.outbox.delivered(taken, through_seq=1)


async def test_a_delivered_fact_is_leased_no_more(bench: StoreBench) -> None:
    """Delivery marks the facts, gives the lease back, and a second answer is refused."""
    await bench.submit(project_created=False)
    lease = await leased(bench)

    assert await bench.store.outbox.delivered(lease, through_seq=1)

    assert await lease_run(bench) is None
    assert await bench.row("select count(*) from deepline.outbox_leases") == 0
    assert not await bench.store.outbox.delivered(lease, through_seq=1)


async def test_the_created_fact_acknowledges_the_run(bench: StoreBench) -> None:
    """With the created fact a run that waits for it is due at once, and its lane hears of it."""
    await bench.submit(project_created=False)
    [pending] = await bench.claim()
    assert isinstance(pending, CreatedPending)
    assert await bench.store.attempts.defer(pending.claim, timedelta(minutes=5), WHY)
    lease = await leased(bench)
    assert not await bench.is_due()
    async with listener(bench, "deepline_wake") as heard_by:
        assert await bench.store.outbox.delivered(lease, through_seq=1)
        heard = [note.payload async for note in heard_by.notifies(timeout=5, stop_after=1)]

    assert heard == ["runs"]
    assert await bench.is_due()
    assert (await bench.claim_fresh()).launch == launch("run")


async def test_an_acknowledged_run_still_waits_for_its_turn(bench: StoreBench) -> None:
    """Acknowledging a run that admission holds back does not let it past the others (Q38)."""
    await bench.submit(project_created=False)

    assert await bench.store.outbox.delivered(await leased(bench), through_seq=1)

    assert not await bench.is_due()
    assert await bench.row("select created_projected_at is not null from deepline.runs")


async def test_an_ended_run_is_acknowledged_without_a_wake(bench: StoreBench) -> None:
    """A run cancelled before its created fact was delivered gets both facts through, in order."""
    await bench.submit(project_created=False)
    await bench.store.terminals.cancel(RUN, by="me", reason="no need", why=WHY)
    lease = await leased(bench)
    assert [fact.kind for fact in lease.facts] == ["run.created", "run.cancelled"]

    assert await bench.store.outbox.delivered(lease, through_seq=2)

    assert await bench.engine_state() == "cancelled"
    assert await bench.row("select count(*) from deepline.outbox where delivered_at is null") == 0


async def test_a_failed_fact_is_put_off(bench: StoreBench) -> None:
    """A failure counts, keeps its error short and storable, and is due again after the delay."""
    await bench.submit(project_created=False)
    lease = await leased(bench)
    error = "bad \x00 \ud800 gateway " + "x" * 5_000

    assert await bench.store.outbox.failed(lease, error=error, delay=LEASE, dead=False)

    attempts, stored, wait, dead_at = await bench.row(
        "select attempts, last_error, due_at - clock_timestamp(), dead_at from deepline.outbox"
    )
    assert (attempts, dead_at) == (1, None)
    assert stored.startswith("bad ")
    assert len(stored) <= 1_000
    assert timedelta(seconds=20) < wait <= LEASE
    assert await lease_run(bench) is None
    await bench.rows("update deepline.outbox set due_at = now()")
    assert (await leased(bench)).attempts == 1


async def test_a_launch_that_cannot_be_read_stops_nobody_else(bench: StoreBench) -> None:
    """The facts of a broken launch become dead letters; the wave goes on with all others."""
    await bench.submit("broken", project_created=False)
    await bench.submit("whole", project_created=False)
    await bench.rows("update deepline.launches set launch = '{}' where run_id = 'broken'")

    assert [lease.run_id for lease in await lease_due(bench)] == ["whole"]

    assert "launch.runId" in await bench.row(
        "select last_error from deepline.outbox where run_id = 'broken' and dead_at is not null"
    )


async def test_a_run_somebody_works_on_is_passed_over(bench: StoreBench) -> None:
    """A wave never waits for a run whose row is locked; it is leased by a later one."""
    await bench.submit("busy", project_created=False)
    await bench.submit("free", project_created=False)
    async with transaction(bench) as other:
        await other.execute("select from deepline.runs where run_id = 'busy' for update")
        assert [lease.run_id for lease in await lease_due(bench)] == ["free"]
    assert [lease.run_id for lease in await lease_due(bench)] == ["busy"]


async def test_dispatchers_race(bench: StoreBench) -> None:
    """However many dispatchers ask at once, each run is leased to one of them (I22)."""
    run_ids = [f"run-{number:02}" for number in range(40)]
    for run_id in run_ids:
        await bench.submit(run_id, project_created=False)
    got: list[OutboxLease] = []

    async def dispatch(user: StoreBench, owner: str) -> None:
        for _ in range(4):
            got.extend(await lease_due(user, owner, runs=5))

    async with store_bench(bench.dsn) as other, trio.open_nursery() as nursery:
        for number, user in enumerate((bench, other, bench, other)):
            nursery.start_soon(dispatch, user, f"dispatcher-{number}")

    assert len({lease.run_id for lease in got}) == len(got)
    rest = await lease_due(bench, "last", runs=100)
    assert sorted(lease.run_id for lease in (*got, *rest)) == run_ids


async def test_immediate_and_durable_dispatch_race_for_a_run(bench: StoreBench) -> None:
    """Of two that ask for the same run at once one gets it, the other learns that it is taken."""
    await bench.submit(project_created=False)
    answers: list[OutboxLease | None] = []

    async def ask(user: StoreBench, owner: str) -> None:
        answers.append(await lease_run(user, owner=owner))

    async with (
        store_bench(bench.dsn) as other,
        trio.open_nursery() as nursery,
        transaction(bench) as blocker,
    ):
        await blocker.execute("select from deepline.runs for update")
        nursery.start_soon(ask, bench, "one")
        nursery.start_soon(ask, other, "two")
        await until_waiting(bench, 2)
    assert sorted(answer is None for answer in answers) == [False, True]


async def test_deliveries_share_a_commit(bench: StoreBench) -> None:
    """Deliveries that arrive while one is under way are made durable by one commit together."""
    leases = []
    for number in range(6):
        await bench.submit(f"run-{number}", project_created=False)
        leases.append(await leased(bench, f"run-{number}"))
    async with trio.open_nursery() as nursery, transaction(bench) as blocker:
        await blocker.execute("select from deepline.runs where run_id = 'run-0' for update")
        nursery.start_soon(deliver, bench, leases[0])
        await until_waiting(bench)
        for lease in leases[1:]:
            nursery.start_soon(deliver, bench, lease)
        await trio.testing.wait_all_tasks_blocked(0.05)

    transactions = await bench.row(
        "select count(distinct xmin::text) from deepline.outbox where run_id <> 'run-0'"
    )
    assert transactions == 1


async def deliver(bench: StoreBench, lease: OutboxLease) -> None:
    """Deliver all of a lease."""
    assert await bench.store.outbox.delivered(lease, through_seq=lease.facts[-1].seq)
