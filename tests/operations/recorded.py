"""Recordings of an observed deployment in virtual time: healthy, or in some trouble."""

from collections.abc import Awaitable, Callable

import trio

from deepline.runtime.stop import Stop
from deepline.runtime.worker import Worker
from tests.operations.observed import ObservedWorld
from tests.support.recording import Recording
from tests.support.scrapes import Scrape

SCRAPE_S = 60.0
Step = Callable[[ObservedWorld, int], Awaitable[None]]


async def one_run_a_minute(world: ObservedWorld, minute: int) -> None:
    """The traffic of a healthy deployment."""
    await world.submit_stamped(f"run-{minute}")


async def nothing(world: ObservedWorld, minute: int) -> None:
    """No traffic."""


async def record(
    world: ObservedWorld,
    minutes: int,
    *,
    worker: Worker | None = None,
    each_minute: Step = nothing,
    counts: bool = True,
) -> Recording:
    """Let a deployment work for so long, scraping it every minute after a step of the test's."""
    scrapes: list[Scrape] = []
    world.worker_seen = worker
    async with trio.open_nursery() as nursery:
        if worker is not None:
            await nursery.start(worker.serve, Stop())
        if counts:
            nursery.start_soon(world.census.run, Stop())
        for minute in range(minutes):
            await each_minute(world, minute)
            await trio.sleep(SCRAPE_S)
            scrapes.append(world.scrape())
        nursery.cancel_scope.cancel()
    return Recording(scrapes)
