"""Recovery on Postgres beyond the contract: unreadable rows, lost queues, plans (C37)."""

import json
from datetime import timedelta

import pytest

from deepline.core.instants import to_ms
from deepline.core.model.identity import AttemptKey
from deepline.core.model.json_value import Json
from deepline.core.model.suspension import DetachedSuspension
from deepline.ports.errors import MalformedDocument
from deepline.ports.wire import suspension_from_json, suspension_to_json
from tests.support.store import StoreBench, detached, event, key_of

NOTHING = timedelta(0)
PARKED: dict[str, Json] = suspension_to_json(detached(1))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="as-written"),
        pytest.param({"ceilingMs": 0}, id="no-time-at-all"),
        pytest.param({"ceilingMs": 1.5}, id="half-a-millisecond"),
        pytest.param({"ceilingMs": 10**30}, id="for-ever"),
        pytest.param({"ceilingMs": -1}, id="negative"),
        pytest.param({"ceilingMs": "3600000"}, id="a-text"),
        pytest.param({"ceilingMs": None}, id="null"),
        pytest.param({"ceilingMs": True}, id="true"),
        pytest.param({"startedAtMs": -1}, id="before-the-epoch"),
        pytest.param({"startedAtMs": 10**18}, id="too-late"),
        pytest.param({"sandboxId": None}, id="no-sandbox"),
        pytest.param({"runnerAttempt": "1"}, id="attempt-is-a-text"),
        pytest.param({"kind": "sleep", "wakeAtMs": 0}, id="a-sleep"),
        pytest.param({"kind": "unheard-of"}, id="another-kind"),
    ],
)
async def test_the_store_reads_a_ceiling_as_the_codec_does(
    bench: StoreBench, changes: dict[str, Json]
) -> None:
    """What the store takes for a ceiling is what a worker would read, and null is null (C30)."""
    document = {**PARKED, **changes}

    found = await bench.row("select deepline.ceiling_ms(%s::jsonb)", json.dumps(document))

    assert found == _ceiling_ms(document)


def _ceiling_ms(document: dict[str, Json]) -> int | None:
    try:
        suspension = suspension_from_json(document)
    except MalformedDocument:
        return None
    return to_ms(suspension.ceiling_at) if isinstance(suspension, DetachedSuspension) else None


async def test_an_unreadable_suspension_is_named_and_left_alone(bench: StoreBench) -> None:
    """Nobody knows its ceiling, so it is no candidate and is reported (C37.5, Q20)."""
    broken = await bench.parked("broken")
    await bench.parked("sound")
    waiting = await bench.started("waiting")
    await bench.park(waiting, event())
    await bench.rows(
        "update deepline.attempts set suspension = suspension - 'ceilingMs' where run_id = 'broken'"
    )

    recovery = bench.store.recovery
    assert await recovery.unreadable(limit=10) == [key_of(broken.attempt.ref)]
    overdue = await recovery.overdue(lease=NOTHING, after=None, limit=10)
    assert [found.ref.run_id for found in overdue] == ["sound"]
    assert not await recovery.claim_overdue(broken.attempt.ref, owner="me", lease=NOTHING)


async def test_runs_of_a_lost_queue_are_stranded(bench: StoreBench) -> None:
    """A lane whose queue was dropped has no tasks; its open runs are found all the same."""
    await bench.submit("run")
    await bench.rows("select absurd.drop_queue('runs')")

    page = await bench.store.recovery.stranded(grace=NOTHING, after=None, limit=10)

    assert [(found.run_id, found.task_state) for found in page.runs] == [("run", None)]


@pytest.mark.parametrize(
    ("query", "index"),
    [
        pytest.param(
            "select * from deepline.overdue_attempts('1 s', null, null, 10)",
            "attempts_by_ceiling",
            id="overdue",
        ),
        pytest.param(
            "select * from deepline.unsettled_terminals(null, '1 s', null, null, 10)",
            "attempts_unsettled",
            id="unsettled",
        ),
    ],
)
async def test_lists_are_read_by_their_index(bench: StoreBench, query: str, index: str) -> None:
    """With many attempts parked, finding the few costs nothing much (idle load)."""
    await bench.rows(
        "insert into deepline.attempts (run_id, attempt, lease_token, status, engine_attempt,"
        " suspension) select 'run-' || n, 1, 'token', 'waiting', 1, %s"
        " from generate_series(1, 5000) n",
        json.dumps({**PARKED, "ceilingMs": 10**13}),
    )
    await bench.rows("analyze deepline.attempts")

    plan = "\n".join(await bench.rows(f"explain {query}"))

    assert index in plan


async def test_unknown_attempts_are_no_candidates(bench: StoreBench) -> None:
    """An attempt that does not exist is claimed by nobody."""
    work = await bench.parked()
    await bench.rows("delete from deepline.attempts")

    assert not await bench.store.recovery.claim_overdue(work.attempt.ref, owner="me", lease=NOTHING)
    key = AttemptKey(work.attempt.ref.run_id, 1)
    assert await bench.store.crash_diagnostics.read(key) is None
