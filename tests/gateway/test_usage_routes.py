"""Sandbox time over HTTP: one's own, and everybody's for operators (C55)."""

from datetime import timedelta

import pytest

from deepline.adapters.memory.rows import UsageRow
from deepline.core.instants import to_ms
from deepline.core.model.identity import AttemptKey, OrgId, RunId
from tests.gateway.deployment import ALICE, BOB, OPERATOR, Deployment, bearer, deployed


def use(deployment: Deployment, run_id: str, org: str, seconds: float | None) -> None:
    """Have a sandbox that was in use for so long, or still is."""
    now = deployment.clock.now()
    row = UsageRow(
        key=AttemptKey(RunId(run_id), 1),
        org_id=OrgId(org),
        provider="local",
        sandbox_id=f"sandbox of {run_id}",
        started_at=now - timedelta(seconds=seconds or 1),
        ended_at=None if seconds is None else now,
    )
    deployment.world.usage.setdefault(RunId(run_id), []).append(row)


@pytest.mark.parametrize(
    ("key", "query", "runs"),
    [
        pytest.param(ALICE, "", ["run_2", "run_1"], id="own"),
        pytest.param(ALICE, "?org=alice&limit=1", ["run_2"], id="own-by-name"),
        pytest.param(BOB, "", ["run_3"], id="another"),
        pytest.param(OPERATOR, "", ["run_3", "run_2", "run_1"], id="operator"),
        pytest.param(OPERATOR, "?org=bob", ["run_3"], id="operator-one"),
    ],
)
async def test_whose_use_is_seen(key: str, query: str, runs: list[str]) -> None:
    """An organisation sees its own runs; an operator all, or one organisation's."""
    async with deployed() as deployment:
        use(deployment, "run_1", "alice", None)
        use(deployment, "run_2", "alice", 2.5)
        use(deployment, "run_3", "bob", 10)
        answer = await deployment.client.get(f"/api/v1/usage{query}", headers=bearer(key))

    assert [run["runId"] for run in answer.json()["runs"]] == runs


async def test_seconds_and_running_sandboxes() -> None:
    """Ended ones count with their seconds, if they ended since then; others are running."""
    async with deployed() as deployment:
        use(deployment, "run_1", "alice", 2.5)
        use(deployment, "run_1", "alice", None)
        later = to_ms(deployment.clock.now()) + 1_000
        usage = await deployment.client.get("/api/v1/usage", headers=bearer(ALICE))
        fresh = await deployment.client.get(f"/api/v1/usage?since={later}", headers=bearer(ALICE))

    assert usage.json() == {
        "sinceMs": 0,
        "organisations": [{"orgId": "alice", "sandboxSeconds": 2.5, "running": 1}],
        "runs": [{"runId": "run_1", "orgId": "alice", "sandboxSeconds": 2.5, "running": 1}],
    }
    assert fresh.json()["organisations"] == [{"orgId": "alice", "sandboxSeconds": 0, "running": 1}]


async def test_another_organisation_is_not_there() -> None:
    """Whoever is no operator learns nothing of others."""
    async with deployed() as deployment:
        answer = await deployment.client.get("/api/v1/usage?org=bob", headers=bearer(ALICE))

    assert (answer.status_code, answer.json()["code"]) == (404, "organisation_not_found")
