"""The store as a whole: closing, cancellation, lost answers, many steps at once (DESIGN §5)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
from psycopg.conninfo import make_conninfo

from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.heartbeat import NoFence
from deepline.core.model.identity import RunId
from deepline.core.model.run import RunStatus
from deepline.ports.errors import OutcomeUnknown, PortError, Unavailable
from deepline.ports.terminals import Committed
from tests.support.store import OUTPUT, WHY, StoreBench, key_of, store_bench, submission


async def test_a_last_write_succeeds_while_the_program_is_cancelled(
    migrated_database: str,
) -> None:
    """A shielded commit still reaches the database after everything around it was cancelled."""
    outcomes: list[object] = []
    with trio.CancelScope() as program:
        async with store_bench(migrated_database) as bench:
            work = await bench.started()
            program.cancel()
            with trio.move_on_after(5, shield=True):
                outcomes.append(await bench.commit(work))

    assert program.cancelled_caught
    assert isinstance(outcomes[0], Committed)


async def test_a_closed_store_is_unavailable(migrated_database: str) -> None:
    """A write after the block was left was not done, and says so."""
    async with store_bench(migrated_database) as bench:
        work = await bench.started()
        await bench.commit(work)

    with pytest.raises(Unavailable):
        await bench.commit(work)
    with pytest.raises(Unavailable):
        await bench.store.attempts.resume(work.attempt.ref, work.claim, Checkpoint())


async def test_a_write_whose_connection_is_lost_is_unknown(bench: StoreBench) -> None:
    """A commit that was under way when its connection ended may have happened, so it is unknown."""
    work = await bench.started()
    failures: list[PortError] = []

    async def commit() -> None:
        try:
            await bench.commit(work)
        except PortError as failure:
            failures.append(failure)

    async with bench.pool.lease() as blocker, blocker.transaction():
        await blocker.execute("select 1 from deepline.runs for update")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commit)
            await end_whoever_waits(bench)

    assert [type(failure) for failure in failures] == [OutcomeUnknown]
    assert await bench.store.terminals.status(RunId("run")) is RunStatus.RUNNING
    assert isinstance(await bench.commit(work), Committed)


async def end_whoever_waits(bench: StoreBench) -> None:
    """End the session that waits for a lock."""
    ended: list[Any] = []
    with trio.fail_after(10):
        while not ended:
            ended += await bench.rows(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where wait_event_type = 'Lock' and datname = current_database()"
            )


async def test_a_cancelled_asker_leaves_the_others_their_answers(bench: StoreBench) -> None:
    """Cancelling one of the callers of a batch under way does not touch the rest."""
    await bench.submit("one")
    await bench.submit("two")
    one, two = await bench.claim_all_fresh(2)
    outcomes: list[object] = []

    async def commit_two() -> None:
        outcomes.append(await bench.commit(two))

    async with (
        bench.pool.lease() as blocker,
        trio.open_nursery() as nursery,
        blocker.transaction(),
    ):
        await blocker.execute("select 1 from deepline.runs for update")
        nursery.start_soon(commit_two)
        with trio.move_on_after(0.2) as impatient:
            await bench.commit(one)

    assert impatient.cancelled_caught
    assert isinstance(outcomes[0], Committed)


async def test_every_step_at_once_ends_in_order(bench: StoreBench) -> None:
    """Beats, offers, parks, extensions, cancels, claims and commits never deadlock."""
    count = 30
    await bench.store.admission.submit(
        [submission(f"run-{number}") for number in range(count)], project_created=True
    )
    works = await bench.claim_all_fresh(count)
    store = bench.store

    async def storm(index: int) -> None:
        work = works[index]
        key = key_of(work.attempt.ref)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(store.liveness.beat, key)
            nursery.start_soon(
                store.engine.extend,
                [one.claim for one in (*works[index:], *works[:index])],
                timedelta(seconds=60),
            )
            nursery.start_soon(bench.park, work)
            nursery.start_soon(store.terminals.offer, key, OUTPUT, NoFence(), WHY)
            nursery.start_soon(bench.claim, 3)
            if index % 3 == 0:
                nursery.start_soon(cancel, work.claim.run_id)
            if index % 3 == 1:
                nursery.start_soon(bench.commit, work)

    async def cancel(run_id: RunId) -> None:
        await store.terminals.cancel(run_id, by="p", reason="r", why=WHY)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for index in range(count):
                nursery.start_soon(storm, index)

    terminal_facts = await bench.row(
        "select count(*) from deepline.outbox where event_id like 'run-terminal:%%'"
    )
    assert terminal_facts == await bench.row(
        "select count(*) from deepline.runs where terminal_at is not null"
    )
    assert (
        await bench.rows(
            "select run_id from deepline.runs d join absurd.t_runs t using (task_id)"
            " where d.terminal_at is not null and t.state not in ('completed', 'cancelled')"
        )
        == []
    )


async def test_no_session_state_is_needed(migrated_database: str) -> None:
    """Whatever the session's search path and time zone, every step finds and writes the same."""
    options = "-c search_path=nowhere -c timezone=Asia/Tokyo -c datestyle=SQL,DMY"
    dsn = make_conninfo(migrated_database, options=options)
    async with store_bench(dsn) as bench:
        work = await bench.parked()
        until = datetime.now(UTC) + timedelta(hours=2)
        await bench.make_due("run")
        wake = await bench.claim_wake()

        await bench.park(wake, until=until)

        attempt = await bench.store.attempts.read(key_of(work.attempt.ref))
        assert attempt is not None
        assert attempt.created_at == work.attempt.created_at
        assert await bench.row("select available_at = %s from absurd.r_runs", until)
        assert await bench.store.engine.next_due(wake.claim.lane) is not None
        await bench.store.terminals.offer(key_of(work.attempt.ref), OUTPUT, NoFence(), WHY)
        assert isinstance(
            await bench.commit(await bench.claim_wake(), from_waiting=True), Committed
        )
