"""A worker's life on memory ports: claim, execute, commit, stop."""

import trio
import trio.testing

from deepline.core.model.run import RunStatus
from deepline.runtime.stop import Stop
from tests.runtime.worlds import InProcessBackend, SmallWorld


async def test_runs_complete(autojump_clock: trio.testing.MockClock) -> None:
    """Submitted runs are claimed, executed once and completed, and stop ends the worker."""
    world, backend, stop = SmallWorld(), InProcessBackend(), Stop()
    await world.submit("r1", "r2", "r3")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.worker(backend).serve, stop)
        runs = await world.until_ended("r1", "r2", "r3")
        stop.request()

    assert [run.status for run in runs] == [RunStatus.COMPLETED] * 3
    assert sorted(backend.executed) == ["r1", "r2", "r3"]
