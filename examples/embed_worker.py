"""A worker inside a Trio program of your own: your coroutine does the work, every run ends once.

Run it: `python examples/embed_worker.py ada grace`. Runs are kept in memory here, as in a test;
give `main` the ports of a database, as docs/examples.md shows, and they outlive this program.
"""

import secrets
import sys
from random import SystemRandom

import trio

import deepline as dl
from deepline.adapters.memory import MemoryTelemetry, World, open_ports
from deepline.ports.admission import Submission

LANE = dl.Lane("runs")
PORTS = "attempts terminals engine outbox cleanup sheets receipts signals usage"


class Greeter:
    """A backend: what does the work. It lets go of nothing, so there is nothing to look after."""

    def __init__(self, launches):
        self.launches = launches

    async def execute(self, launch, attempt, claim):
        """Do one run, to its result."""
        name = await self.launches.read_input(launch.run_id)
        if not name.isalpha():
            return dl.Failed(error="BAD_NAME: a name is made of letters")
        return dl.Completed(output=f"Hello {name.title()}!")

    async def ensure_started(self, launch, attempt, suspension, claim):
        """Nothing is ever left to be started."""
        return suspension

    async def inspect(self, suspension):
        """Nothing runs elsewhere that one could look at."""


async def greet(store, name):
    """Submit a run and see how it ends, as any program may that reaches the store."""
    run_id, org = dl.RunId(f"greet-{secrets.token_hex(8)}"), dl.OrgId("me")
    launch = dl.Launch(
        run_id=run_id, org_id=org, play_name="greet", graph_hash="1", base_url="none"
    )
    order = Submission(
        launch=launch,
        lane=LANE,
        input_json=name,
        placement_key="backend:",
        max_engine_attempts=5,
        finaliser_attempts=3,
    )
    await store.admission.submit([order], project_created=True)
    while True:
        found = await store.runs.read(run_id, None)
        if found.run.status.is_terminal:
            break
        await trio.sleep(0.05)
    print(f"{name}: {found.run.status}, {getattr(found.result, 'output', found.result)}")


async def main(store, names):
    """Serve until every name is greeted; then the worker drains, and the nursery ends."""
    shared = {port: getattr(store, port) for port in PORTS.split()}
    backend, clock = Greeter(store.launches), dl.SystemClock()
    ports = dl.WorkerPorts(**shared, backend=backend, clock=clock, telemetry=MemoryTelemetry())
    settings = dl.WorkerSettings(name=f"embedded-{secrets.token_hex(4)}", lane=LANE)
    await store.admission.ensure_lane(LANE, None)
    stop = dl.Stop()
    async with trio.open_nursery() as nursery:
        await nursery.start(dl.Worker(ports, settings, SystemRandom()).serve, stop)
        async with trio.open_nursery() as greetings:
            for name in names:
                greetings.start_soon(greet, store, name)
        stop.request()


if __name__ == "__main__":
    trio.run(main, open_ports(World()), sys.argv[1:] or ["ada"])
