"""Liveness work on Postgres: malformed documents, races, and the plan of a page (C39, C41)."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from deepline.core.model.heartbeat import NoFence
from deepline.core.model.identity import RunId
from deepline.core.model.stale_runner import StaleRunner
from deepline.ports.liveness_work import VerdictRefused, VerdictStored, WorkQuery
from tests.support.store import FAILURE, OUTPUT, WHY, StoreBench, key_of

pytestmark = pytest.mark.postgres
MINUTE = timedelta(minutes=1)


async def stale(bench: StoreBench, provider: str = "local") -> list[StaleRunner]:
    """The first page of a provider."""
    query = WorkQuery(after={provider: None}, limit=10, default_timeout=MINUTE)
    return list((await bench.store.liveness_work.find(query)).stale)


async def change(bench: StoreBench, **fields: object) -> None:
    """Write fields into the stored suspension, as only damage can."""
    await bench.rows(
        "update deepline.attempts set suspension = suspension || %s::jsonb", json.dumps(fields)
    )


@pytest.mark.parametrize(
    ("timeout", "is_stale"),
    [
        pytest.param(None, False, id="absent-is-the-default"),
        pytest.param("soon", False, id="a-text-is-the-default"),
        pytest.param(-1, False, id="a-negative-is-the-default"),
        pytest.param(True, False, id="a-boolean-is-the-default"),
        pytest.param(0, True, id="nothing-is-at-once"),
        pytest.param(0.5, True, id="less-than-a-millisecond"),
        pytest.param(1e300, False, id="for-ever"),
    ],
)
async def test_a_malformed_timeout_is_the_default(
    bench: StoreBench, timeout: object, is_stale: bool
) -> None:
    """A heartbeat timeout that is none never makes a runner stale, or fresh for ever (Q21)."""
    work = await bench.parked()
    await bench.store.liveness.beat(key_of(work.attempt.ref))
    await change(bench, heartbeatTimeoutMs=timeout)

    assert bool(await stale(bench)) is is_stale


async def test_a_beat_older_than_the_default_is_stale(bench: StoreBench) -> None:
    """The default is measured from the beat by the database's clock."""
    work = await bench.parked()
    await bench.store.liveness.beat(key_of(work.attempt.ref))
    await bench.rows("update deepline.attempts set heartbeat_at = now() - interval '61 s'")

    (found,) = await stale(bench)

    assert found.liveness.beat_at is not None
    assert datetime.now(UTC) - found.liveness.beat_at >= MINUTE


async def test_an_unreadable_suspension_is_found_and_says_so(bench: StoreBench) -> None:
    """Its run is found by what can be read, and named to whoever looks after it (C40.1)."""
    await bench.parked()
    await change(bench, sandboxId=None, startedAtMs="yesterday", sandboxProvider=None)
    assert await stale(bench, "daytona") == []
    await bench.rows("update deepline.attempts set updated_at = now() - interval '2 min'")

    (found,) = await stale(bench, "daytona")

    assert (found.suspension, found.provider) == (None, "daytona")
    assert await bench.store.liveness_work.record_verdict(found, FAILURE, WHY) == VerdictRefused(
        "suspension_moved"
    )


async def test_the_verdict_loses_to_a_commit_between(bench: StoreBench) -> None:
    """A worker that commits between the read and the write keeps its outcome, and alone (F01)."""
    work = await bench.parked()
    (found,) = await stale(bench)
    await bench.store.terminals.offer(key_of(work.attempt.ref), OUTPUT, NoFence(), WHY)
    await bench.commit(await bench.claim_wake(), from_waiting=True)

    refused = await bench.store.liveness_work.record_verdict(found, FAILURE, WHY)

    assert refused == VerdictRefused("attempt_over")
    assert await bench.row("select status from deepline.runs") == "completed"
    assert await bench.rows("select attempt from deepline.attempts") == [1]
    kinds = await bench.rows("select kind from deepline.outbox where kind <> 'run.created'")
    assert kinds == ["run.completed"]


async def test_a_cancel_asked_for_refuses_the_verdict(bench: StoreBench) -> None:
    """A run that somebody asked to cancel gets no verdict, ended or not (C41.3)."""
    await bench.parked()
    (found,) = await stale(bench)
    await bench.rows("update deepline.runs set cancel_requested_at = now()")

    assert await bench.store.liveness_work.record_verdict(found, FAILURE, WHY) == VerdictRefused(
        "attempt_over"
    )
    assert await stale(bench) == []


async def test_a_verdict_leaves_the_engine_run_asleep(bench: StoreBench) -> None:
    """Whoever records a verdict settles it; no worker is sent after it."""
    await bench.parked()
    (found,) = await stale(bench)

    assert await bench.store.liveness_work.record_verdict(found, FAILURE, WHY) == VerdictStored()

    assert not await bench.is_due()
    query = WorkQuery(after={}, limit=10, default_timeout=MINUTE)
    (unsettled,) = (await bench.store.liveness_work.find(query)).terminals
    assert unsettled.ref.run_id == RunId("run")


async def test_a_page_is_read_from_its_index(bench: StoreBench) -> None:
    """However many attempts there are, a page walks the parked runners of its provider alone."""
    await bench.parked()
    await bench.rows(
        "insert into deepline.attempts"
        " (run_id, attempt, lease_token, status, engine_attempt, suspension)"
        " select 'run-' || n, 1, 'x', 'waiting', 1, suspension || jsonb_build_object("
        "     'sandboxProvider', case when mod(n, 2) = 0 then 'local' else 'modal' end)"
        "   from deepline.attempts, generate_series(1, 5000) n"
    )
    await bench.rows("analyze deepline.attempts")

    body = await bench.row("select prosrc from pg_proc where proname = 'stale_runners'")
    for name, value in {
        "p_after": '\'[{"provider": "local"}]\'::jsonb',
        "p_limit": "100",
        "p_default_ms": "60000",
        "p_now": "absurd.current_time()",
    }.items():
        body = body.replace(name, value)
    plan = await bench.rows(f"explain {body}")

    assert any("attempts_detached" in line for line in plan), "\n".join(plan)
    assert not any("Sort" in line for line in plan), "\n".join(plan)
