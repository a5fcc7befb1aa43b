"""Runs that wait for a release nobody serves are shown as such, wherever runs are (C56, F53)."""

from collections.abc import Mapping

import attrs

from deepline.core.model.identity import Lane, RunId
from deepline.core.model.why import Why
from deepline.gateway.context import GatewayPorts
from deepline.gateway.stranded import LOOK_EVERY
from deepline.ports.lanes import LaneBeat, Lanes, ServedLane
from tests.gateway.deployment import ALICE, Deployment, Options, bearer, deployed

SERVING = LaneBeat(worker="w1", release_id=None, served=[ServedLane(Lane("runs"))])


@attrs.define(eq=False)
class Counted:
    """A registry that counts how often it is read as a whole."""

    inner: Lanes
    looks: int = 0

    async def all(self) -> object:
        """Read it."""
        self.looks += 1
        return await self.inner.all()


async def listed(gateway: Deployment) -> Mapping[str, bool]:
    """What the list says of each run."""
    answer = await gateway.client.get("/api/v1/runs", headers=bearer(ALICE))
    return {run["runId"]: run["stranded"] for run in answer.json()["runs"]}


async def test_a_run_whose_lane_nobody_serves_is_stranded() -> None:
    """Until a worker says that it serves the lane, or the run has ended."""
    async with deployed() as gateway:
        await gateway.submit(runId="run_waits")
        await gateway.submit(runId="run_over")
        await gateway.store.terminals.cancel(
            RunId("run_over"), by="test", reason="enough", why=Why("cancel.requested")
        )
        before = await listed(gateway)
        shown = await gateway.client.get("/api/v1/runs/run_waits", headers=bearer(ALICE))
        await gateway.store.lanes.beat(SERVING)
        gateway.clock.advance(LOOK_EVERY)
        after = await listed(gateway)

    assert before == {"run_waits": True, "run_over": False}
    assert shown.json()["stranded"] is True
    assert after == {"run_waits": False, "run_over": False}


async def test_lanes_are_looked_at_now_and_then() -> None:
    """However often runs are listed, and never for runs that have all ended."""
    counted: list[Counted] = []

    def count(ports: GatewayPorts) -> GatewayPorts:
        counted.append(Counted(ports.lanes))
        return attrs.evolve(ports, lanes=counted[0])  # type: ignore[arg-type]  # nothing else is asked

    async with deployed(Options(ports=count)) as gateway:
        assert await listed(gateway) == {}
        nothing = counted[0].looks
        await gateway.submit(runId="run_waits")
        for _ in range(5):
            assert await listed(gateway) == {"run_waits": True}
        soon = counted[0].looks
        gateway.clock.advance(LOOK_EVERY)
        await listed(gateway)

    assert (nothing, soon, counted[0].looks) == (0, 1, 2)
