"""Submitting: one commit, answered for each run, repeated without harm (C05, C07, I24–I26)."""

import attrs
import psycopg
import pytest
import trio

from deepline.core.model.claim import Fresh
from deepline.core.model.identity import Lane
from deepline.ports.admission import SubmitReceipt
from deepline.ports.errors import NotFound, Refused
from tests.support.statements import until_blocked
from tests.support.store import LANE, StoreBench, submission


async def test_a_submitted_run_is_claimable(bench: StoreBench) -> None:
    """When submit returns, run, launch, fact and task are there and the work is claimable (I24)."""
    (receipt,) = await bench.store.admission.submit([submission("run")], project_created=True)

    assert receipt.run_created
    assert receipt.task_created
    assert not receipt.task_recovery_required
    assert receipt.task_id == str(await bench.row("select task_id from deepline.runs"))
    assert await bench.row("select input from deepline.launches") == {"n": 1}
    assert isinstance((await bench.claim())[0], Fresh)


async def test_the_created_fact_waits_in_the_outbox(bench: StoreBench) -> None:
    """A store without the ledger leaves the created fact to be delivered."""
    await bench.submit(project_created=False)

    assert await bench.row("select seq, event_id, kind, delivered_at from deepline.outbox") == (
        1,
        "run-created:run",
        "run.created",
        None,
    )
    assert await bench.row("select created_projected_at, next_seq from deepline.runs") == (None, 2)
    assert await bench.rows("select 1 from deepline.run_events") == []


async def test_the_created_fact_is_projected_in_the_same_commit(bench: StoreBench) -> None:
    """A store that holds the ledger applies the created fact at once."""
    await bench.submit(project_created=True)

    cursor, event_id = await bench.row("select cursor, event_id from deepline.run_events")
    assert (cursor, event_id) == (1, "run-created:run")
    assert await bench.row("select delivered_at is not null from deepline.outbox")
    assert await bench.row("select created_projected_at is not null from deepline.runs")


async def test_a_repeated_submit_is_answered_and_changes_nothing(bench: StoreBench) -> None:
    """A run id that exists is a success without effect; its launch never changes (I26)."""
    (first,) = await bench.store.admission.submit([submission("run")])
    changed = submission("run", org="other", input_json={"n": 2})

    (second,) = await bench.store.admission.submit([changed])

    assert second == attrs.evolve(first, run_created=False, task_created=False)
    assert await bench.row("select launch ->> 'orgId', input from deepline.launches") == (
        "org",
        {"n": 1},
    )


async def test_receipts_come_in_the_order_asked(bench: StoreBench) -> None:
    """A batch answers each submission in its place, the second mention of a run as existing."""
    await bench.submit("b")
    batch = [submission(run_id) for run_id in ("c", "b", "a", "c")]

    receipts = await bench.store.admission.submit(batch)

    assert [receipt.run_id for receipt in receipts] == ["c", "b", "a", "c"]
    assert [receipt.run_created for receipt in receipts] == [True, False, True, False]
    assert [receipt.task_created for receipt in receipts] == [True, False, True, False]
    assert await bench.store.admission.submit([]) == []


async def test_simultaneous_submits_make_one_run(bench: StoreBench) -> None:
    """The same batches at the same moment make each run once and block nobody for good."""
    receipts: list[SubmitReceipt] = []

    async def submit(order: int) -> None:
        batch = [submission(f"run-{number}") for number in range(10)][::order]
        receipts.extend(await bench.store.admission.submit(batch))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(submit, 1)
            nursery.start_soon(submit, -1)

    assert sum(receipt.run_created for receipt in receipts) == 10
    assert sum(receipt.task_created for receipt in receipts) == 10
    assert len(await bench.rows("select 1 from absurd.t_runs")) == 10


async def test_a_lane_hears_once_of_a_batch(bench: StoreBench) -> None:
    """Many runs of a lane submitted together cost one notification."""
    with psycopg.connect(bench.dsn, autocommit=True) as listener:
        listener.execute("listen deepline_wake")
        await bench.store.admission.submit([submission(f"run-{n}") for n in range(20)])

        assert [heard.payload for heard in listener.notifies(timeout=0.2)] == [LANE]


async def test_a_missing_task_is_told_and_made_anew(bench: StoreBench) -> None:
    """A run whose task is gone says so, and gets another on its own lane (C07.8)."""
    await bench.submit()
    await bench.rows("delete from absurd.t_runs")
    await bench.rows("delete from absurd.r_runs")

    (receipt,) = await bench.store.admission.submit([submission("run")])
    assert receipt.task_recovery_required
    assert receipt.task_id is None

    recovered = await bench.store.admission.recover_task(submission("run", lane=Lane("another")))
    assert recovered.task_created
    assert recovered.task_id is not None
    assert isinstance((await bench.claim())[0], Fresh)
    assert not (await bench.store.admission.recover_task(submission("run"))).task_created


async def test_there_is_no_task_to_recover_without_a_run(bench: StoreBench) -> None:
    """Recovery of an unknown run raises `NotFound`."""
    with pytest.raises(NotFound):
        await bench.store.admission.recover_task(submission("nobody"))


async def test_an_unstorable_input_refuses_its_batch(bench: StoreBench) -> None:
    """All submissions of a call are committed together or not at all."""
    with pytest.raises(Refused):
        await bench.store.admission.submit(
            [submission("good"), submission("bad", input_json="nul \x00")]
        )
    assert await bench.rows("select 1 from deepline.runs") == []


async def test_lanes_are_made_once_by_many(bench: StoreBench) -> None:
    """A lane first used by many processes at once is made by one of them."""
    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(bench.store.steps.call, "ensure_lane", "runs_other", "release-2")

    assert await bench.row("select release_id from deepline.lanes where lane = 'runs_other'") == (
        "release-2"
    )
    assert (
        await bench.row("select count(*) from pg_indexes where indexname = 'r_runs_other_due'") == 1
    )


async def test_a_run_stays_on_the_lane_it_was_submitted_to(bench: StoreBench) -> None:
    """Runs of different lanes are claimed apart (I25)."""
    other = Lane("runs_other")
    await bench.store.admission.ensure_lane(other, None)
    await bench.store.admission.submit(
        [submission("here"), submission("there", lane=other)], project_created=True
    )

    (here,) = await bench.claim(quantity=5)
    (there,) = await bench.claim(quantity=5, lane=other)

    assert (here.claim.run_id, there.claim.run_id) == ("here", "there")
    assert isinstance(there, Fresh)
    await bench.commit(there)


async def test_a_lane_without_a_queue_is_not_found(bench: StoreBench) -> None:
    """Submitting to a lane that was never made ready says so and makes nothing."""
    with pytest.raises(NotFound):
        await bench.store.admission.submit([submission("run", lane=Lane("nowhere"))])

    assert await bench.rows("select 1 from deepline.runs") == []


async def test_a_run_id_taken_on_another_lane_leaves_no_task_behind(bench: StoreBench) -> None:
    """Who loses the race for a run id to another lane takes back the task that it made."""
    other = Lane("other")
    await bench.store.admission.ensure_lane(other, "other")
    receipts: list[SubmitReceipt] = []

    async def lose() -> None:
        late = submission("run", lane=other)
        receipts.extend(await bench.store.admission.submit([late]))

    async with (
        trio.open_nursery() as nursery,
        bench.pool.lease() as observer,
        bench.pool.lease() as winner,
        winner.transaction(),
    ):
        await winner.execute(
            "insert into deepline.runs (run_id, org_id, play_name, lane, placement_key)"
            " values ('run', 'org', 'play', 'runs', 'local')"
        )
        nursery.start_soon(lose)
        await until_blocked(observer)

    (receipt,) = receipts
    assert not receipt.run_created
    assert not receipt.task_created
    assert await bench.rows("select 1 from absurd.t_other") == []
    assert await bench.rows("select 1 from absurd.r_other") == []


async def test_a_recovered_task_of_an_admitted_run_is_due_at_once(bench: StoreBench) -> None:
    """Nothing would admit it a second time; the task of any other waits for its admission."""
    await bench.submit("admitted")
    await bench.claim_fresh()
    await bench.submit("queued")
    await bench.rows("delete from absurd.t_runs")
    await bench.rows("delete from absurd.r_runs")

    for run_id in ("admitted", "queued"):
        assert (await bench.store.admission.recover_task(submission(run_id))).task_created

    assert await bench.rows(
        "select r.run_id, e.available_at = 'infinity' from deepline.runs r"
        " join absurd.r_runs e on e.run_id = r.engine_run_id order by 1"
    ) == [("admitted", False), ("queued", True)]


async def test_only_first_attempts_are_held_back(bench: StoreBench) -> None:
    """An engine attempt after a failed one is due when the engine says."""
    work = await bench.started()
    await bench.store.engine.fail(work.claim, "it was no use")

    assert await bench.row("select available_at < 'infinity' from absurd.r_runs where attempt = 2")
