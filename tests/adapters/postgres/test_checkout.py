"""Loans of a connection that take long are told, with the step and the run they were for (C59)."""

import pytest
import trio

from deepline.adapters.memory.telemetry import MemoryTelemetry
from deepline.adapters.postgres import checkout
from deepline.adapters.postgres.checkout import (
    SLOW_S,
    UNNAMED,
    Purpose,
    SlowCheckout,
    purpose_of_query,
    slow_checkout,
)
from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings
from deepline.cli.opened_store import opened_store
from deepline.cli.settings.parts import StoreSettings
from deepline.core.limits import Limits
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.launch import Launch
from deepline.ports.admission import Submission
from deepline.testing.scene import LANE, RELEASE

SHORT_S = SLOW_S / 2
SUBMISSION = Submission(
    launch=Launch(
        run_id=RunId("run-1"),
        org_id=OrgId("org-1"),
        play_name="play",
        graph_hash="graph",
        base_url="https://gateway.example",
        release_id=RELEASE,
    ),
    lane=LANE,
    input_json={},
    placement_key="key-1",
    max_engine_attempts=5,
    finaliser_attempts=3,
)
STEP = Purpose("park", ['{"run_id": "run-1", "lane": "runs"}', '{"run_id": "run-2"}'])


@pytest.mark.parametrize(
    ("waited_s", "held_s", "told"),
    [
        pytest.param(SHORT_S, SHORT_S, False, id="C59-short"),
        pytest.param(SLOW_S, 0.0, True, id="C59-waited"),
        pytest.param(0.0, SLOW_S, True, id="C59-held"),
    ],
)
def test_a_loan_is_told_when_it_is_slow(waited_s: float, held_s: float, *, told: bool) -> None:
    """For waiting or for holding, with the first run of those that shared the step."""
    slow = slow_checkout(STEP, waited_s=waited_s, held_s=held_s)

    wanted = SlowCheckout(
        phase="park", run_id="run-1", requests=2, waited_s=waited_s, held_s=held_s
    )
    assert slow == (wanted if told else None)


@pytest.mark.parametrize(
    "requests", [(), ("[]",), ('{"lane": "runs"}',), ('{"run_id": 7}',)], ids=str
)
def test_a_step_without_a_run_names_none(requests: tuple[str, ...]) -> None:
    """Not every step is about a run."""
    slow = slow_checkout(Purpose("lane_beat", requests), waited_s=SLOW_S, held_s=0.0)

    assert slow is not None
    assert (slow.run_id, slow.requests) == (None, len(requests))


def test_a_read_is_named_after_what_it_reads() -> None:
    """The first function or table of the schema in it."""
    read = "select {schema}.census(%s, %s), {schema}.waits_without_limit()"

    assert purpose_of_query(read) == Purpose("census")
    assert purpose_of_query("select 1") is UNNAMED


@pytest.mark.postgres
async def test_who_holds_and_who_waits_are_told_apart(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that want the only connection, one held it and the other waited for it."""
    monkeypatch.setattr(checkout, "SLOW_S", 0.1)
    told: list[SlowCheckout] = []
    pool = ConnectionPool.to(
        ConnectionSettings(dsn=database), PoolSettings(size=1), told=told.append
    )

    async def hold() -> None:
        async with pool.lease(purpose=Purpose("holds")) as connection:
            began.set()
            await connection.execute("select pg_sleep(0.2)")

    began = trio.Event()
    async with pool, trio.open_nursery() as nursery:
        async with pool.lease() as connection:
            await connection.execute("select 1")
        told.clear()
        nursery.start_soon(hold)
        await began.wait()
        async with pool.lease(purpose=STEP) as connection:
            await connection.execute("select 1")

    holder, waiter = told
    assert (holder.phase, holder.run_id, waiter.phase, waiter.run_id) == (
        "holds",
        None,
        "park",
        "run-1",
    )
    assert holder.held_s >= 0.2 > holder.waited_s
    assert waiter.waited_s >= 0.1


@pytest.mark.postgres
async def test_a_store_tells_its_steps(
    migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through all of a role's store, as the event that operators look for."""
    monkeypatch.setattr(checkout, "SLOW_S", 0.0)
    telemetry = MemoryTelemetry()
    settings = StoreSettings(dsn=migrated_database)
    async with opened_store(settings, Limits(), telemetry, who="tests") as store:
        await store.ports.admission.ensure_lane(LANE, RELEASE)
        await store.ports.admission.submit([SUBMISSION])
        await store.ports.lanes.all()

    told = [one.fields for one in telemetry.events if one.name == "slow_checkout"]
    by_phase = {str(one["phase"]): one for one in told}
    assert {"ensure_lane", "submit", "lane_states"} <= set(by_phase)
    assert by_phase["submit"]["runId"] == "run-1"
    assert all(isinstance(one["heldMs"], int) for one in told)
