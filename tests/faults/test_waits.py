"""A run that waits for what nobody will ever say is seen, and people can end it (F26)."""

from pathlib import Path

import attrs
import pytest

from deepline.adapters.postgres.audit import audit
from deepline.cli.doctor.examination import examine
from deepline.cli.doctor.findings import Finding, State
from deepline.core.explain.explanation import explain
from deepline.core.model.identity import RunId
from deepline.core.model.run import RunStatus
from deepline.core.model.why import Why
from deepline.ports.terminals import Cancelled
from deepline.testing import Scene
from tests.cli.deployments import variables
from tests.contracts.postgres_stores import postgres_stores

pytestmark = pytest.mark.postgres

OPEN, BOUNDED = "run-open", "run-bounded"
PARKED = Why("parking.integration_event", {"event_key": "approved"})


async def parked(scene: Scene) -> None:
    """Two plays wait for an event that nobody sends; one of them has set a limit."""
    bounded, unbounded = await scene.started(BOUNDED), await scene.started(OPEN)
    limit = scene.asleep(bounded).wake_at
    limited = attrs.evolve(scene.awaiting(bounded), expires_at=limit)
    await scene.park(bounded, limited, until=limit, why=PARKED)
    await scene.park(unbounded, scene.awaiting(unbounded), why=PARKED)


async def waits(dsn: str, directory: Path) -> Finding:
    """What the doctor says of waits."""
    found = await examine(variables(dsn, directory))
    (finding,) = [one for one in found if one.check == "waits"]
    return finding


async def test_fault_F26_a_wait_for_what_nobody_says(
    migrated_database: str, tmp_path: Path
) -> None:
    """The census and the doctor count it, `explain` names its event, and a cancel ends it."""
    async with postgres_stores(migrated_database) as stores:
        await parked(await Scene.on(stores))
        evidence = await stores.runs.evidence(RunId(OPEN), None)
        assert evidence is not None
        told = explain(evidence)
        assert (told.situation, told.next) == (
            "waiting_for_event",
            "a signal with that event key",
        )
        assert "approved" in told.sentence

        seen = await waits(migrated_database, tmp_path)
        assert seen.state is State.ADVICE
        assert seen.says.startswith("1 runs wait for an event without a limit")
        assert "deepline runs cancel" in (seen.remedy or "")

        ended = await stores.terminals.cancel(
            RunId(OPEN), by="operator", reason="nobody will say it", why=Why("cancel.requested")
        )
        assert isinstance(ended, Cancelled)
        outcome = await stores.runs.read(RunId(OPEN), None)
        assert outcome is not None
        assert outcome.run.status is RunStatus.CANCELLED

    assert (await waits(migrated_database, tmp_path)).state is State.OK
    assert await audit(migrated_database) == []
