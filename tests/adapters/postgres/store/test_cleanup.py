"""Cleanup on Postgres: who may delete what, with what proof (C50–C52, C55, I12, I40, I41)."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
import trio

from deepline.core.model.attempt import RetireReason
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.suspension import SleepSuspension
from deepline.ports.cleanup import CleanupJob, JobAgain, JobDone
from tests.support.races import transaction
from tests.support.store import OUTPUT, SANDBOX, WHY, StoreBench, detached, key_of, store_bench

LEASE = timedelta(seconds=60)
ACCEPTED = "provider_delete_accepted"
NO_DELAY = timedelta(0)


async def claim(
    bench: StoreBench, owner: str = "one", providers: Sequence[str] = ("local",), limit: int = 10
) -> Sequence[CleanupJob]:
    """Claim what is due."""
    return await bench.store.cleanup.claim(owner, providers, limit=limit, lease=LEASE)


async def claimed(bench: StoreBench, owner: str = "one") -> CleanupJob:
    """Claim the one job that is due."""
    [job] = await claim(bench, owner)
    return job


async def ended(bench: StoreBench, run_id: str = "run") -> AttemptKey:
    """A run that ended and whose sandbox is owed a delete."""
    work = await bench.parked(run_id)
    await bench.commit(work, from_waiting=True, claim=None)
    return key_of(work.attempt.ref)


async def expire_leases(bench: StoreBench) -> None:
    """Let the time of all leases pass."""
    await bench.rows("update deepline.cleanup_jobs set lease_expires_at = '-infinity'")


async def test_a_job_says_what_to_delete(bench: StoreBench) -> None:
    """A claimed job names the sandbox, its owner at the provider, and counts its claims from 1."""
    key = await ended(bench)

    job = await claimed(bench)

    assert (job.owner, job.key, job.org_id, job.provider) == ("one", key, "org", "local")
    assert (job.sandbox_id, job.routing_domain) == (SANDBOX.sandbox_id, SANDBOX.routing_domain)
    assert (job.cleanup_attempt, job.failure_count, job.capture_crash) == (1, 0, False)


async def test_a_live_runners_sandbox_is_not_given_out(bench: StoreBench) -> None:
    """While an attempt may still have its runner in the sandbox no cleaner gets the job (I12)."""
    work = await bench.started()
    await bench.bind(work)
    await bench.rows("select deepline.owe_cleanup('run', null)")
    key = key_of(work.attempt.ref)
    assert await claim(bench) == []

    await bench.park(work)

    assert await claim(bench) == []
    assert await bench.store.cleanup.claim_for(key, "one", lease=LEASE) == []
    await bench.store.terminals.cancel(RunId("run"), by="me", reason="enough", why=WHY)
    assert (await claimed(bench)).sandbox_id == SANDBOX.sandbox_id


async def test_a_create_under_way_is_not_cleaned_up(bench: StoreBench) -> None:
    """An attempt that is about to get its sandbox keeps its reservation from the cleaners (I12)."""
    work = await bench.started()
    await bench.store.capacity.reserve(
        work.attempt.ref, work.launch.org_id, "local", provider_limit=None, org_limit=None
    )
    await bench.rows("select deepline.owe_cleanup('run', null)")

    assert await claim(bench) == []


async def test_a_given_up_attempts_sandbox_is_given_out(bench: StoreBench) -> None:
    """Once its attempt is retired the sandbox goes, though the run lives on (I13)."""
    work = await bench.started()
    reservation = await bench.store.capacity.reserve(
        work.attempt.ref, work.launch.org_id, "local", provider_limit=None, org_limit=None
    )
    await bench.store.attempts.retire(
        work.attempt.ref, work.claim, RetireReason.CAPACITY, delay=NO_DELAY, why=WHY
    )

    job = await claimed(bench)

    assert (job.sandbox_id, job.sandbox_name) == (None, reservation.operation.name)
    assert job.operation_token == reservation.operation.token


async def test_a_sleeping_play_holds_no_sandbox(bench: StoreBench) -> None:
    """The sandbox of a play that sleeps may go while its run and attempt live on."""
    work = await bench.started()
    await bench.bind(work)
    await bench.park(
        work,
        SleepSuspension(
            boundary_id="nap", runner_attempt=1, wake_at=datetime(2030, 1, 1, tzinfo=UTC)
        ),
    )
    await bench.rows("select deepline.owe_cleanup('run', null)")

    assert (await claimed(bench)).sandbox_id == SANDBOX.sandbox_id


async def test_a_late_sandbox_is_given_out_beside_the_living_one(bench: StoreBench) -> None:
    """A sandbox that came too late is deleted; the one in which the runner works is not (C64)."""
    work = await bench.started()
    await bench.bind(work, "operation-1")
    await bench.lose_claim(work)
    await bench.claim_wake()
    await bench.rows("update deepline.sandbox_operations set provider = 'other'")
    late = attrs.evolve(SANDBOX, sandbox_id="late")
    assert not await bench.store.attempts.bind_sandbox(
        work.attempt.ref, late, detached(1), operation_key="operation-2"
    )

    assert [job.sandbox_id for job in await claim(bench)] == ["late"]


async def test_only_due_jobs_of_the_providers_come_oldest_first(bench: StoreBench) -> None:
    """A claim takes what is due longest, of these providers, up to its limit."""
    for run_id in ("a", "b", "c", "d", "e"):
        await ended(bench, run_id)
    await bench.rows(
        "update deepline.cleanup_jobs set due_at = now() - case run_id when 'b' then '3 min'"
        " when 'a' then '2 min' when 'c' then '1 min' else '4 min' end::interval"
    )
    await bench.rows("update deepline.cleanup_jobs set due_at = 'infinity' where run_id = 'd'")
    await bench.rows("update deepline.cleanup_jobs set provider = 'modal' where run_id = 'e'")

    assert [job.key.run_id for job in await claim(bench, limit=2)] == ["b", "a"]
    assert [job.key.run_id for job in await claim(bench)] == ["c"]
    assert [job.key.run_id for job in await claim(bench, providers=["modal"])] == ["e"]
    assert await claim(bench, providers=[]) == []


async def test_jobs_of_an_attempt_are_leased_at_once(bench: StoreBench) -> None:
    """Who wants to delete now gets the attempt's jobs, put off or not, and no others."""
    key = await ended(bench, "mine")
    await ended(bench, "other")
    await bench.rows("update deepline.cleanup_jobs set due_at = 'infinity'")

    [job] = await bench.store.cleanup.claim_for(key, "one", lease=LEASE)

    assert job.key == key
    assert await bench.store.cleanup.claim_for(key, "two", lease=LEASE) == []


async def test_a_lost_lease_finishes_nothing(bench: StoreBench) -> None:
    """After its lease is over and taken the first cleaner's answer counts no more."""
    await ended(bench)
    lost = await claimed(bench, "one")
    assert await claim(bench, "two") == []
    await expire_leases(bench)
    taken = await claimed(bench, "two")

    assert taken.cleanup_attempt == 2
    assert not await bench.store.cleanup.finish(lost, JobDone())
    assert await bench.store.cleanup.finish(taken, JobDone())
    assert not await bench.store.cleanup.finish(taken, JobDone())
    assert await claim(bench) == []


async def test_one_owner_does_not_answer_for_its_later_claim(bench: StoreBench) -> None:
    """A cleaner that lost a job and claimed it again cannot end it by its old answer (F42)."""
    await ended(bench)
    first = await claimed(bench)
    await expire_leases(bench)
    second = await claimed(bench)

    assert not await bench.store.cleanup.finish(first, JobAgain(delay=LEASE, failed=True))
    assert await bench.store.cleanup.finish(second, JobDone())


async def test_a_job_put_off_comes_again(bench: StoreBench) -> None:
    """A job that is not done waits its delay and counts its failures; nothing ends it (Q40)."""
    await ended(bench)
    for failures in range(3):
        job = await claimed(bench)
        assert (job.cleanup_attempt, job.failure_count) == (failures + 1, failures)
        assert await bench.store.cleanup.finish(job, JobAgain(delay=NO_DELAY, failed=True))
    job = await claimed(bench)
    again = JobAgain(delay=timedelta(minutes=10), failed=False)

    assert await bench.store.cleanup.finish(job, again)

    assert await claim(bench) == []
    wait, failures = await bench.row(
        "select due_at - clock_timestamp(), failure_count from deepline.cleanup_jobs"
    )
    assert timedelta(minutes=9) < wait <= timedelta(minutes=10)
    assert failures == 3


async def test_a_misrouted_job_goes_where_the_sandbox_is(bench: StoreBench) -> None:
    """A job learns the organisation that owns the sandbox, and so does the operation (C51.4)."""
    await ended(bench)
    job = await claimed(bench)
    elsewhere = JobAgain(delay=NO_DELAY, failed=True, routing_domain="elsewhere")

    assert await bench.store.cleanup.finish(job, elsewhere)

    assert (await claimed(bench)).routing_domain == "elsewhere"
    assert await bench.rows("select routing_domain from deepline.sandbox_operations") == [
        "elsewhere"
    ]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"sandbox_id": "another"}, id="another-sandbox"),
        pytest.param({"routing_domain": "another"}, id="another-routing-domain"),
        pytest.param({"provider": "another"}, id="another-provider"),
        pytest.param({"key": AttemptKey(RunId("run"), 2)}, id="another-attempt"),
        pytest.param({"key": AttemptKey(RunId("other"), 1)}, id="another-run"),
    ],
)
async def test_an_acceptance_is_of_exactly_one_sandbox(
    bench: StoreBench, changes: dict[str, Any]
) -> None:
    """The provider's acceptance proves nothing about any other sandbox, place, run or attempt."""
    await ended(bench)
    job = await claimed(bench)
    assert await bench.store.cleanup.acceptance(job) is None

    await bench.store.cleanup.record_event(job, ACCEPTED, {"routingDomain": "domain"})

    assert await bench.store.cleanup.acceptance(job) is not None
    other = attrs.evolve(job, **changes)
    assert await bench.store.cleanup.acceptance(other) is None


async def test_the_first_acceptance_stays(bench: StoreBench) -> None:
    """A second acceptance of the same sandbox is not kept, other events always are (I41)."""
    await ended(bench)
    job = await claimed(bench)
    await bench.store.cleanup.record_event(job, ACCEPTED, {"n": 1})
    first = await bench.store.cleanup.acceptance(job)

    await bench.store.cleanup.record_event(job, ACCEPTED, {"n": 2})
    for number in range(2):
        await bench.store.cleanup.record_event(job, "provider_delete_pending", {"n": number})

    assert await bench.store.cleanup.acceptance(job) == first
    assert await bench.rows(
        "select kind, fields from deepline.cleanup_events order by event_id"
    ) == [
        (ACCEPTED, {"n": 1}),
        ("provider_delete_pending", {"n": 0}),
        ("provider_delete_pending", {"n": 1}),
    ]


async def test_the_sandboxs_time_ends_with_the_acceptance(bench: StoreBench) -> None:
    """A sandbox whose delete was accepted earlier is paid for until then and no longer (C55)."""
    await ended(bench)
    job = await claimed(bench)
    await bench.store.cleanup.record_event(job, ACCEPTED, {})
    acceptance = await bench.store.cleanup.acceptance(job)
    assert acceptance is not None

    assert await bench.store.cleanup.finish(job, JobDone())

    [use] = await bench.store.usage.of_run(RunId("run"))
    assert use.ended_at == acceptance.accepted_at
    assert await bench.rows("select state from deepline.sandbox_operations") == ["gone"]


async def test_without_an_acceptance_time_ends_with_the_proof(bench: StoreBench) -> None:
    """A sandbox that was found gone without one is paid for until the job is closed."""
    await ended(bench)
    job = await claimed(bench)
    [before] = await bench.store.usage.of_run(RunId("run"))
    assert before.ended_at is None

    assert await bench.store.cleanup.finish(job, JobDone())

    done_at = await bench.row("select done_at from deepline.cleanup_jobs")
    [use] = await bench.store.usage.of_run(RunId("run"))
    assert use.ended_at == done_at


async def test_a_reopened_job_keeps_its_sandboxs_own_acceptance(bench: StoreBench) -> None:
    """A sandbox that lands after its job was closed is deleted with a proof of its own (I50)."""
    work = await bench.started()
    reservation = await bench.store.capacity.reserve(
        work.attempt.ref, work.launch.org_id, "local", provider_limit=None, org_limit=None
    )
    await bench.commit(work, OUTPUT)
    by_name = await claimed(bench)
    await bench.store.cleanup.record_event(by_name, ACCEPTED, {})
    assert await bench.store.cleanup.finish(by_name, JobDone())

    assert not await bench.bind(work, reservation.operation.key)

    job = await claimed(bench)
    assert job.sandbox_id == SANDBOX.sandbox_id
    assert await bench.store.cleanup.acceptance(job) is None
    await bench.store.cleanup.record_event(job, ACCEPTED, {})
    assert await bench.store.cleanup.acceptance(job) is not None


async def test_cleaners_race(bench: StoreBench) -> None:
    """However many cleaners claim at once, each job is given to one of them."""
    for number in range(20):
        await ended(bench, f"run-{number:02}")
    got: list[CleanupJob] = []

    async def clean(user: StoreBench, owner: str) -> None:
        for _ in range(4):
            got.extend(await claim(user, owner, limit=3))

    async with store_bench(bench.dsn) as other, trio.open_nursery() as nursery:
        for number, user in enumerate((bench, other, bench, other)):
            nursery.start_soon(clean, user, f"cleaner-{number}")

    got.extend(await claim(bench, "last", limit=100))
    assert sorted(job.key.run_id for job in got) == [f"run-{number:02}" for number in range(20)]


async def test_a_job_somebody_looks_at_is_passed_over(bench: StoreBench) -> None:
    """A claim never waits for another cleaner."""
    await ended(bench, "busy")
    await ended(bench, "free")
    async with transaction(bench) as other:
        await other.execute("select from deepline.cleanup_jobs where run_id = 'busy' for update")
        assert [job.key.run_id for job in await claim(bench)] == ["free"]
