"""Claims: what preparing a run finds, one answer for each state it may be in (C12–C15, Q38)."""

from datetime import timedelta

import pytest
import trio

from deepline.core.model.attempt import AttemptStatus, RetireReason
from deepline.core.model.claim import (
    AlreadyTerminal,
    CreatedPending,
    Exhausted,
    Fresh,
    LaunchMissing,
    Misplaced,
    Missing,
    Wake,
)
from deepline.core.model.identity import Lane, OrgId
from deepline.core.model.run import RunStatus
from deepline.ports.attempts import LostFence
from deepline.ports.errors import FenceLost
from deepline.ports.terminals import NotCommitted
from tests.support.store import LOCAL, StoreBench, key_of, submission


async def test_a_queued_run_is_prepared_with_a_first_attempt(bench: StoreBench) -> None:
    """A run claimed for the first time gets attempt 1, running, under a lease of its own."""
    work = await bench.started()

    assert work.attempt.ref.attempt == 1
    assert work.attempt.status is AttemptStatus.RUNNING
    assert work.claim.engine_attempt == 1
    assert work.claim.max_engine_attempts == 2
    assert work.launch == submission("run").launch
    assert await bench.store.attempts.read(key_of(work.attempt.ref)) == work.attempt
    assert await bench.store.attempts.is_live(work.attempt.ref)
    assert await bench.store.terminals.status(work.claim.run_id) is RunStatus.RUNNING


async def test_each_attempt_has_a_lease_token_of_its_own(bench: StoreBench) -> None:
    """Two runs claimed together do not share a lease token."""
    await bench.submit("one")
    await bench.submit("two")

    prepared = await bench.claim(quantity=10)

    assert len({work.attempt.ref.lease_token for work in prepared if isinstance(work, Fresh)}) == 2


async def test_an_unacknowledged_run_waits_without_an_attempt(bench: StoreBench) -> None:
    """No attempt starts before the created fact is acknowledged (I51)."""
    await bench.submit(project_created=False)

    (prepared,) = await bench.claim()

    assert isinstance(prepared, CreatedPending)
    assert prepared.retry_after == timedelta(seconds=5)
    assert await bench.rows("select 1 from deepline.attempts") == []


async def test_an_acknowledged_run_is_prepared_under_the_same_claim(bench: StoreBench) -> None:
    """A claim in hand is prepared again once the created fact was acknowledged (C13)."""
    await bench.submit(project_created=False)
    (pending,) = await bench.claim()
    await bench.rows("update deepline.runs set created_projected_at = now()")

    prepared = await bench.store.attempts.prepare(
        pending.claim, placement_keys=[LOCAL], worker="worker-1"
    )

    assert isinstance(prepared, Fresh)
    again = await bench.store.attempts.prepare(
        pending.claim, placement_keys=[LOCAL], worker="worker-1"
    )
    assert again == prepared


async def test_a_lost_claim_is_not_prepared_again(bench: StoreBench) -> None:
    """Preparing under a claim that somebody else has by now raises `FenceLost`."""
    await bench.submit(project_created=False)
    (pending,) = await bench.claim()
    await bench.rows("update absurd.r_runs set claimed_by = 'another'")

    with pytest.raises(FenceLost):
        await bench.store.attempts.prepare(pending.claim, placement_keys=[LOCAL], worker="w")


async def test_a_run_of_another_placement_is_not_started(bench: StoreBench) -> None:
    """A worker that may not run a launch creates no attempt for it (I52)."""
    await bench.submit(placement_key="modal")

    (prepared,) = await bench.claim()

    assert isinstance(prepared, Misplaced)
    assert await bench.rows("select 1 from deepline.attempts") == []


async def test_a_task_without_a_run_is_missing(bench: StoreBench) -> None:
    """A task whose run row is gone is answered as such (Q11)."""
    await bench.submit()
    await bench.claim(org_limit=0)
    await bench.rows("update absurd.r_runs set available_at = now()")
    await bench.rows("delete from deepline.runs")

    (prepared,) = await bench.claim()

    assert isinstance(prepared, Missing)
    assert await bench.store.engine.complete(prepared.claim)


async def test_a_run_without_a_launch_is_told_apart(bench: StoreBench) -> None:
    """A run whose launch is gone gets no attempt (Q11)."""
    await bench.submit()
    await bench.rows("delete from deepline.launches")

    (prepared,) = await bench.claim()

    assert isinstance(prepared, LaunchMissing)
    assert await bench.rows("select 1 from deepline.attempts") == []


async def test_a_launch_that_cannot_be_read_spoils_no_other_run(bench: StoreBench) -> None:
    """One unreadable launch counts as missing; the run claimed beside it is fresh."""
    await bench.submit("bad")
    await bench.submit("good")
    await bench.rows("update deepline.launches set launch = '[]' where run_id = 'bad'")

    prepared = await bench.claim(quantity=2)

    assert {type(one) for one in prepared} == {LaunchMissing, Fresh}


async def test_an_ended_run_is_answered_as_terminal(bench: StoreBench) -> None:
    """A run that ended while its task lived on is not started again (I01)."""
    await bench.submit()
    await bench.rows("update deepline.runs set status = 'completed', terminal_at = now()")
    await bench.rows("update absurd.r_runs set available_at = now()")

    (prepared,) = await bench.claim()

    assert isinstance(prepared, AlreadyTerminal)
    assert prepared.status is RunStatus.COMPLETED


async def test_a_lost_claim_without_a_runner_makes_a_fresh_attempt(bench: StoreBench) -> None:
    """The attempt of a dead worker is retired, with its obligation, before another (I13)."""
    lost = await bench.started()
    await bench.rows(
        "insert into deepline.sandbox_operations"
        " (operation_key, token, name, provider, org_id, run_id, attempt)"
        " values ('key', 'token', 'dl-token', 'local', 'org', 'run', 1)"
    )
    await bench.lose_claim(lost)

    fresh = await bench.claim_fresh()

    assert fresh.attempt.ref.attempt == 2
    assert fresh.claim.engine_attempt == 2
    old = await bench.store.attempts.read(key_of(lost.attempt.ref))
    assert old is not None
    assert old.status is AttemptStatus.RETIRED
    assert await bench.row("select retired_reason from deepline.attempts where attempt = 1") == (
        RetireReason.LEASE_LOST
    )
    assert await bench.rows("select operation_key, attempt from deepline.cleanup_jobs") == [
        ("key", 1)
    ]
    assert isinstance(await bench.commit(lost), NotCommitted)


async def test_a_lost_claim_with_a_runner_is_taken_over(bench: StoreBench) -> None:
    """Where a play may have started, the attempt goes on under a lease its holder knows not."""
    lost = await bench.started()
    assert await bench.bind(lost)
    await bench.lose_claim(lost)

    wake = await bench.claim_wake()

    assert wake.attempt.ref.attempt == 1
    assert wake.attempt.status is AttemptStatus.WAITING
    assert wake.attempt.suspension is not None
    assert wake.attempt.ref.lease_token != lost.attempt.ref.lease_token
    assert isinstance(await bench.commit(lost, claim=None, from_waiting=True), NotCommitted)
    assert isinstance(await bench.park(lost), LostFence)
    assert not await bench.store.attempts.is_live(lost.attempt.ref)
    assert await bench.rows("select 1 from deepline.cleanup_jobs") == []


async def test_the_last_engine_attempts_only_settle(bench: StoreBench) -> None:
    """Past its engine attempts a run is only ended, with its newest attempt at hand."""
    first = await bench.started()
    await bench.lose_claim(first)
    second = await bench.claim_fresh()
    await bench.lose_claim(second)

    (prepared,) = await bench.claim()

    assert isinstance(prepared, Exhausted)
    assert prepared.attempt is not None
    assert prepared.attempt.ref == second.attempt.ref
    assert prepared.claim.is_finaliser


async def test_a_finaliser_finds_no_attempt_where_none_was(bench: StoreBench) -> None:
    """A run whose preparation failed every time is exhausted without an attempt."""
    await bench.submit(max_engine_attempts=1, project_created=False)
    (pending,) = await bench.claim()
    await bench.store.engine.fail(pending.claim, "boom")
    await bench.make_due("run")

    (prepared,) = await bench.claim()

    assert isinstance(prepared, Exhausted)
    assert prepared.attempt is None


async def test_two_claimers_never_get_the_same_run(bench: StoreBench) -> None:
    """Claims at the same time share the runs among them, each run once."""
    for number in range(30):
        await bench.submit(f"run-{number}")
    claimed: list[str] = []

    async def claim_some() -> None:
        for _ in range(4):
            claimed.extend(one.claim.run_id for one in await bench.claim(quantity=5))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(claim_some)

    assert sorted(claimed) == sorted(f"run-{number}" for number in range(30))


async def test_a_run_locked_by_another_is_prepared_after_it(bench: StoreBench) -> None:
    """A claim never waits for a run's row while it holds the engine's; it comes after."""
    await bench.parked("held")
    await bench.submit("free")
    await bench.make_due("held")
    claimed: list[object] = []

    async def claim_both() -> None:
        claimed.extend(await bench.claim(quantity=2))

    async with (
        trio.open_nursery() as nursery,
        bench.pool.lease() as connection,
        connection.transaction(),
    ):
        await connection.execute("select 1 from deepline.runs where run_id = 'held' for update")
        nursery.start_soon(claim_both)
        await bench.until_none("select 1 from absurd.r_runs where state = 'sleeping'")

    assert {type(one) for one in claimed} == {Fresh, Wake}


async def test_a_big_organisation_does_not_keep_small_ones_waiting(bench: StoreBench) -> None:
    """Admission ranks by runs in flight plus place in the queue, so everyone is served early."""
    await bench.store.admission.submit(
        [submission(f"big-{number}", org="big") for number in range(200)], project_created=True
    )
    await bench.store.admission.submit(
        [
            submission(f"small-{org}-{number}", org=f"small-{org}")
            for org in range(10)
            for number in range(2)
        ],
        project_created=True,
    )

    first = await bench.claim(quantity=11)
    second = await bench.claim(quantity=11)

    for batch in (first, second):
        organisations = [one.launch.org_id for one in batch if isinstance(one, Fresh)]
        assert organisations.count(OrgId("big")) == 1
        assert len(set(organisations)) == 11


async def test_an_organisation_stays_within_its_limit(bench: StoreBench) -> None:
    """No more runs of one organisation are in flight than allowed, however often it is claimed."""
    for number in range(5):
        await bench.submit(f"run-{number}")

    first = await bench.claim(quantity=10, org_limit=2)
    second = await bench.claim(quantity=10, org_limit=2)

    assert len(first) == 2
    assert second == []
    assert isinstance(first[0], Fresh)
    await bench.commit(first[0])
    assert len(await bench.claim(quantity=10, org_limit=2)) == 1


async def test_simultaneous_claims_keep_the_limit(bench: StoreBench) -> None:
    """Claims at the same moment do not fill the last place of an organisation twice."""
    for number in range(20):
        await bench.submit(f"run-{number}")
    claimed: list[object] = []

    async def claim_some() -> None:
        claimed.extend(await bench.claim(quantity=5, org_limit=6))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(claim_some)

    assert len(claimed) == 6


async def test_a_resumed_run_is_served_before_a_fresh_backlog(bench: StoreBench) -> None:
    """A parked run that is due does not queue behind runs which were never admitted (Q38)."""
    await bench.parked("parked")
    for number in range(20):
        await bench.submit(f"fresh-{number}")
    await bench.make_due("parked")

    (first,) = await bench.claim(quantity=1)

    assert isinstance(first, Wake)


async def test_the_registry_knows_when_a_lane_was_last_claimed(bench: StoreBench) -> None:
    """A claim leaves its time on the lane, so that abandoned lanes can be told (Q43)."""
    assert await bench.row("select last_claim_at from deepline.lanes") is None

    await bench.claim()

    assert await bench.row("select last_claim_at is not null from deepline.lanes")


async def test_a_lane_without_a_queue_has_nothing_to_claim(bench: StoreBench) -> None:
    """A worker may ask before anything was ever submitted to its lane."""
    assert await bench.claim(lane=Lane("nowhere")) == []
