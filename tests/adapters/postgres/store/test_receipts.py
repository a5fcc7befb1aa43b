"""Steps and receipts on Postgres: done once, released when the attempt is over (C28, I31)."""

from datetime import timedelta

import attrs
import pytest
import trio

from deepline.core.model.attempt import RetireReason
from deepline.core.model.identity import AttemptKey, AttemptRef, LeaseToken, RunId
from deepline.core.model.json_value import Json
from deepline.ports.errors import FenceLost
from deepline.ports.receipts import StepResult
from tests.support.store import WHY, StoreBench, key_of, store_bench

RUN = RunId("run")


async def lease_receipts(bench: StoreBench, ref: AttemptRef, count: int) -> None:
    """Give the attempt leased receipts, as an action under way has them."""
    await bench.rows(
        "insert into deepline.receipts (run_id, receipt_key, org_id, attempt, state)"
        " select %s, 'receipt-' || n, 'org', %s, 'leased' from generate_series(1, %s) n",
        ref.run_id,
        ref.attempt,
        count,
    )


@pytest.mark.parametrize("output", [None, 0, "", [], {"a": {"b": [1, None]}}, "ü \u2028 😀"])
async def test_a_step_result_comes_back(bench: StoreBench, output: Json) -> None:
    """Whatever JSON a step returned is what a resumed play gets back."""
    key = key_of((await bench.started()).attempt.ref)

    saved = await bench.store.receipts.save_step(key, "step", output)

    assert saved == StepResult(step="step", attempt=1, output=output)
    assert await bench.store.receipts.steps(RUN) == [saved]


async def test_the_first_result_of_a_step_stays(bench: StoreBench) -> None:
    """A step saved again, also by a later attempt, answers what was stored first."""
    work = await bench.started()
    await bench.store.receipts.save_step(key_of(work.attempt.ref), "step", 1)
    await bench.store.attempts.retire(
        work.attempt.ref, work.claim, RetireReason.CAPACITY, delay=timedelta(0), why=WHY
    )
    second = await bench.claim_fresh()

    again = await bench.store.receipts.save_step(key_of(second.attempt.ref), "step", 2)

    assert again == StepResult(step="step", attempt=1, output=1)


async def test_steps_come_in_the_order_of_writing(bench: StoreBench) -> None:
    """A resumed play gets its steps in the order it did them."""
    key = key_of((await bench.started()).attempt.ref)
    for step in ("second", "first", "third"):
        await bench.store.receipts.save_step(key, step, None)

    steps = await bench.store.receipts.steps(RUN)

    assert [result.step for result in steps] == ["second", "first", "third"]
    assert await bench.store.receipts.steps(RunId("other")) == []


async def test_an_ended_attempt_saves_no_step(bench: StoreBench) -> None:
    """After the end not even a stored result is answered: the play must stop."""
    work = await bench.started()
    key = key_of(work.attempt.ref)
    await bench.store.receipts.save_step(key, "step", 1)
    await bench.commit(work)

    for step in ("step", "other"):
        with pytest.raises(FenceLost):
            await bench.store.receipts.save_step(key, step, 2)
    with pytest.raises(FenceLost):
        await bench.store.receipts.save_step(AttemptKey(RunId("unknown"), 1), "step", 2)
    assert len(await bench.store.receipts.steps(RUN)) == 1


async def test_savers_race(bench: StoreBench) -> None:
    """Of those who save one step at once exactly one is first, and all learn the same result."""
    key = key_of((await bench.parked()).attempt.ref)
    results: list[StepResult] = []

    async def save(user: StoreBench, output: int) -> None:
        results.append(await user.store.receipts.save_step(key, "step", output))

    async with store_bench(bench.dsn) as other, trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(save, (bench, other)[number % 2], number)

    assert len({result.output for result in results}) == 1
    assert await bench.store.receipts.steps(RUN) == [results[0]]


async def test_receipts_are_released_after_the_end(bench: StoreBench) -> None:
    """Once the attempt is over its leased receipts are given back, counted, once."""
    work = await bench.started()
    await lease_receipts(bench, work.attempt.ref, 3)
    await bench.rows("update deepline.receipts set state = 'done' where receipt_key = 'receipt-3'")
    await bench.commit(work)
    release = bench.store.receipts.release

    assert await release(work.attempt.ref, reason="failed_terminal") == 2
    assert await release(work.attempt.ref, reason="failed_terminal") == 0
    assert await bench.rows("select state from deepline.receipts order by receipt_key") == [
        "released",
        "released",
        "done",
    ]


async def test_a_live_attempts_receipts_are_kept(bench: StoreBench) -> None:
    """While the fence holds nothing is released, whoever asks under it (I31)."""
    work = await bench.started()
    await lease_receipts(bench, work.attempt.ref, 1)

    assert await bench.store.receipts.release(work.attempt.ref, reason="fence_lost") == 0


async def test_a_lost_fence_releases(bench: StoreBench) -> None:
    """A holder whose lease was taken over may give back what it leased."""
    work = await bench.started()
    await lease_receipts(bench, work.attempt.ref, 1)
    lost = attrs.evolve(work.attempt.ref, lease_token=LeaseToken("of another holder"))

    assert await bench.store.receipts.release(lost, reason="fence_lost") == 1


async def test_releases_of_one_batch_are_told_apart(bench: StoreBench) -> None:
    """Answers given together are each about the run that was asked for."""
    refs = []
    for number in range(4):
        work = await bench.started(f"run-{number}")
        await lease_receipts(bench, work.attempt.ref, number)
        await bench.commit(work)
        refs.append(work.attempt.ref)
    released: dict[str, int] = {}

    async def release(ref: AttemptRef) -> None:
        released[ref.run_id] = await bench.store.receipts.release(ref, reason="failed_terminal")

    async with trio.open_nursery() as nursery:
        for ref in refs:
            nursery.start_soon(release, ref)

    assert released == {f"run-{number}": number for number in range(4)}
