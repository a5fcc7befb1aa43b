"""Capacity on Postgres: one identity an operation, limits that nobody overdraws (C46, F20, F66)."""

from datetime import timedelta

import attrs
import pytest
import trio

from deepline.core.model.attempt import RetireReason
from deepline.core.model.claim import Fresh
from deepline.core.model.identity import LeaseToken, OrgId, RunId
from deepline.ports.capacity import OperationState, Reservation
from deepline.ports.cleanup import JobDone
from deepline.ports.errors import FenceLost, SandboxCapacity
from tests.support.races import transaction, until_waiting
from tests.support.store import WHY, StoreBench, store_bench

LEASE = timedelta(seconds=60)


async def reserve(
    bench: StoreBench,
    work: Fresh,
    provider: str = "local",
    *,
    provider_limit: int | None = None,
    org_limit: int | None = None,
) -> Reservation:
    """Reserve for a claimed run."""
    return await bench.store.capacity.reserve(
        work.attempt.ref,
        work.launch.org_id,
        provider,
        provider_limit=provider_limit,
        org_limit=org_limit,
    )


async def delete_all(bench: StoreBench) -> None:
    """Let every owed delete be done."""
    for job in await bench.store.cleanup.claim("cleaner", ["local"], limit=10, lease=LEASE):
        assert await bench.store.cleanup.finish(job, JobDone())


async def states(bench: StoreBench) -> list[str]:
    """The states of all operations, in the order they were made."""
    return list(
        await bench.rows("select state from deepline.sandbox_operations order by reserved_at")
    )


async def test_an_operation_has_an_identity_before_its_sandbox(bench: StoreBench) -> None:
    """A reservation is durable, and its name follows from its token alone (C46.2)."""
    work = await bench.started()

    reservation = await reserve(bench, work)

    assert reservation.state is OperationState.CREATE
    assert reservation.age == timedelta(0)
    operation = reservation.operation
    assert operation.name == f"dl-{operation.token}"
    assert len(operation.token) == 40
    assert set(operation.token) <= set("0123456789abcdef")
    assert (operation.run_id, operation.attempt) == ("run", 1)
    assert (operation.provider, operation.org_id) == ("local", "org")
    assert await bench.row("select operation_key, state from deepline.sandbox_operations") == (
        operation.key,
        "reserved",
    )


async def test_a_repeated_reservation_resumes(bench: StoreBench) -> None:
    """Asked again, the same attempt gets the same operation, bound or not, whatever the limits."""
    work = await bench.started()
    first = await reserve(bench, work, provider_limit=1)
    await bench.rows(
        "update deepline.sandbox_operations set reserved_at = reserved_at - interval '20 s'"
    )

    again = await reserve(bench, work, provider_limit=1, org_limit=1)
    assert await bench.bind(work, first.operation.key)
    bound = await reserve(bench, work, provider_limit=1)

    assert (again.state, again.operation) == (OperationState.RESUME, first.operation)
    assert timedelta(seconds=20) <= again.age < timedelta(seconds=60)
    assert (bound.state, bound.operation) == (OperationState.RESUME, first.operation)


async def test_a_pending_delete_is_finished_first(bench: StoreBench) -> None:
    """An operation whose sandbox is owed a delete is not used; the next one is another (C46.3)."""
    work = await bench.started()
    first = await reserve(bench, work)
    await bench.bind(work, first.operation.key)
    await bench.rows("select deepline.owe_cleanup('run', 1)")

    pending = await reserve(bench, work)

    assert (pending.state, pending.operation) == (OperationState.FINISH_DELETE, first.operation)
    await bench.rows('update deepline.attempts set suspension = \'{"kind": "sleep"}\'')
    await delete_all(bench)
    second = await reserve(bench, work)
    assert second.state is OperationState.CREATE
    assert second.operation.key != first.operation.key
    assert second.operation.name != first.operation.name


@pytest.mark.parametrize("end", ["ended", "cancelled", "retired", "parked", "other token"])
async def test_only_the_running_attempt_reserves(bench: StoreBench, end: str) -> None:
    """Under a lost fence nothing is written down, so nothing is created."""
    work = await bench.started()
    ref = work.attempt.ref
    if end == "ended":
        await bench.commit(work)
    elif end == "cancelled":
        await bench.store.terminals.cancel(RunId("run"), by="me", reason="enough", why=WHY)
    elif end == "retired":
        reason = RetireReason.CAPACITY
        await bench.store.attempts.retire(ref, work.claim, reason, delay=timedelta(0), why=WHY)
    elif end == "parked":
        await bench.park(work)
    else:
        ref = attrs.evolve(ref, lease_token=LeaseToken("guessed"))

    with pytest.raises(FenceLost):
        await bench.store.capacity.reserve(
            ref, OrgId("org"), "local", provider_limit=None, org_limit=None
        )
    assert await states(bench) == []


async def test_a_full_provider_has_no_room(bench: StoreBench) -> None:
    """Over the provider's limit nothing is reserved, and the caller learns when to come back."""
    for run_id, org in (("a", "org-1"), ("b", "org-2")):
        await reserve(bench, await bench.started(run_id, org=org), provider_limit=2)
    work = await bench.started("c", org="org-3")

    with pytest.raises(SandboxCapacity) as full:
        await reserve(bench, work, provider_limit=2)

    assert (full.value.retry_after, full.value.source) == (timedelta(seconds=5), "provider")
    assert (await reserve(bench, work, provider_limit=3)).state is OperationState.CREATE


async def test_an_organisation_has_its_own_limit(bench: StoreBench) -> None:
    """One organisation's limit leaves the others and the other providers alone."""
    await reserve(bench, await bench.started("a", org="big"), org_limit=1)
    second = await bench.started("b", org="big")
    other = await bench.started("c", org="small")

    with pytest.raises(SandboxCapacity) as full:
        await reserve(bench, second, org_limit=1)

    assert full.value.source == "organisation"
    assert (await reserve(bench, other, org_limit=1)).state is OperationState.CREATE
    assert (await reserve(bench, second, "modal", org_limit=1)).state is OperationState.CREATE


async def test_a_limit_counts_what_may_exist(bench: StoreBench) -> None:
    """A sandbox counts until it is proven gone, also while it is being deleted (F20, F69)."""
    work = await bench.started("a")
    await bench.bind(work, (await reserve(bench, work)).operation.key)
    await bench.commit(work)
    next_work = await bench.started("b")

    with pytest.raises(SandboxCapacity):
        await reserve(bench, next_work, provider_limit=1)
    await delete_all(bench)
    assert (await reserve(bench, next_work, provider_limit=1)).state is OperationState.CREATE


async def test_an_abandoned_reservation_frees_its_place(bench: StoreBench) -> None:
    """What never reached the provider counts no more, is owed no delete, and is never resumed."""
    work = await bench.started()
    first = await reserve(bench, work, provider_limit=1)
    await bench.rows("select deepline.owe_cleanup('run', 1)")

    await bench.store.capacity.abandon(first.operation)
    await bench.store.capacity.abandon(first.operation)

    second = await reserve(bench, work, provider_limit=1)
    assert second.state is OperationState.CREATE
    assert second.operation.key != first.operation.key
    assert await states(bench) == ["abandoned", "reserved"]
    await bench.commit(work)
    [job] = await bench.store.cleanup.claim("cleaner", ["local"], limit=10, lease=LEASE)
    assert job.sandbox_name == second.operation.name


async def test_an_operation_with_a_sandbox_is_not_abandoned(bench: StoreBench) -> None:
    """A sandbox that is known stays an obligation whatever somebody says of its create (I44)."""
    work = await bench.started()
    operation = (await reserve(bench, work)).operation
    await bench.bind(work, operation.key)

    await bench.store.capacity.abandon(operation)

    assert await states(bench) == ["bound"]


async def test_an_identity_that_does_not_match_abandons_nothing(bench: StoreBench) -> None:
    """Only the exact operation is abandoned (I42)."""
    work = await bench.started()
    operation = (await reserve(bench, work)).operation

    await bench.store.capacity.abandon(attrs.evolve(operation, token="another"))

    assert await states(bench) == ["reserved"]


async def test_reservers_race_for_the_last_place(bench: StoreBench) -> None:
    """However many ask at once, from however many processes, no limit is overdrawn."""
    works = [await bench.started(f"run-{number}") for number in range(12)]
    taken: list[Reservation] = []

    async def ask(user: StoreBench, work: Fresh) -> None:
        try:
            taken.append(await reserve(user, work, provider_limit=5, org_limit=4))
        except SandboxCapacity:
            return

    async with store_bench(bench.dsn) as other, trio.open_nursery() as nursery:
        for number, work in enumerate(works):
            nursery.start_soon(ask, (bench, other)[number % 2], work)

    assert len(taken) == 4
    assert await states(bench) == ["reserved"] * 4


async def test_a_reserver_waits_for_one_who_may_take_the_last_place(bench: StoreBench) -> None:
    """A place that somebody is about to take is not given to another in the meantime (F20)."""
    quick, slow = await bench.started("quick"), await bench.started("slow")
    refused: list[SandboxCapacity] = []

    async def ask() -> None:
        try:
            await reserve(bench, slow, provider_limit=1)
        except SandboxCapacity as full:
            refused.append(full)

    async with trio.open_nursery() as nursery, transaction(bench) as other:
        await other.execute(
            "select deepline.reserve_operations(jsonb_build_array(jsonb_build_object("
            " 'run_id', 'quick', 'attempt', 1, 'lease_token', %s::text, 'org_id', 'org',"
            " 'provider', 'local', 'provider_limit', 1)))",
            (quick.attempt.ref.lease_token.value,),
        )
        nursery.start_soon(ask)
        await until_waiting(bench)

    assert len(refused) == 1
    assert await bench.rows("select run_id from deepline.sandbox_operations") == ["quick"]


async def test_racing_reservers_of_one_attempt_share_one_operation(bench: StoreBench) -> None:
    """A reservation whose answer was lost, asked for again meanwhile, makes no second sandbox."""
    work = await bench.started()
    answers: list[Reservation] = []

    async def ask(user: StoreBench) -> None:
        answers.append(await reserve(user, work))

    async with store_bench(bench.dsn) as other, trio.open_nursery() as nursery:
        for user in (bench, other, bench, other):
            nursery.start_soon(ask, user)

    assert len({answer.operation for answer in answers}) == 1
    assert sorted(answer.state for answer in answers) == ["create", "resume", "resume", "resume"]
