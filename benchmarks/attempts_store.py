"""How many runs a second the store carries from claim to end, every durable fact kept.

    python -m benchmarks.attempts_store [--slots 100] [--runs 3000] [--connections 4] [DSN]

Without a DSN a server of its own is started in a temporary directory, with fsync on. One process
plays the worker: it claims what it has slots for, and each run commits its terminal at once.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import trio

from deepline.adapters.postgres.embedded import EmbeddedPostgres
from deepline.adapters.postgres.migrate import migrate
from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings
from deepline.adapters.postgres.store import PostgresStore, open_store
from deepline.core.model.claim import Fresh
from deepline.core.model.identity import Lane, OrgId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.result import Completed
from deepline.core.model.why import Why
from deepline.ports.admission import Submission
from deepline.ports.attempts import ClaimRequest
from deepline.ports.terminals import Committed, TerminalCommit

LANE = Lane("runs")
WHY = Why("benchmark.ended")
BATCH = 100


class Worker:
    """Claims for free slots and ends what it claimed."""

    def __init__(self, store: PostgresStore, slots: int) -> None:
        self._store = store
        self._free = slots
        self._freed = trio.Event()
        self._claims = 0
        self.ended = 0

    async def drain(self) -> None:
        """Work until nothing is left to claim."""
        async with trio.open_nursery() as runs:
            while await self._claim(runs):
                while not self._free:
                    self._freed = trio.Event()
                    await self._freed.wait()

    async def _claim(self, runs: trio.Nursery) -> int:
        self._claims += 1
        quantity, self._free = self._free, 0
        prepared = await self._store.attempts.claim(
            ClaimRequest(
                lane=LANE,
                owner=f"bench-{self._claims}",
                worker="bench",
                lease=timedelta(seconds=60),
                quantity=quantity,
                org_limit=10_000,
                placement_keys=["local"],
            )
        )
        self._free += quantity - len(prepared)
        for work in prepared:
            assert isinstance(work, Fresh)
            runs.start_soon(self._end, work)
        return len(prepared)

    async def _end(self, work: Fresh) -> None:
        outcome = await self._store.terminals.commit(
            TerminalCommit(
                ref=work.attempt.ref, claim=work.claim, result=Completed(output=1), why=WHY
            )
        )
        assert isinstance(outcome, Committed)
        self.ended += 1
        self._free += 1
        self._freed.set()


def submissions(first: int, count: int) -> Sequence[Submission]:
    """Small launches of ten organisations."""
    return [
        Submission(
            launch=Launch(
                run_id=RunId(f"run-{number}"),
                org_id=OrgId(f"org-{number % 10}"),
                play_name="play",
                graph_hash="hash",
                base_url="http://runtime.invalid",
            ),
            lane=LANE,
            input_json=None,
            placement_key="local",
            max_engine_attempts=5,
            finaliser_attempts=3,
        )
        for number in range(first, first + count)
    ]


async def measure(dsn: str, slots: int, runs: int, connections: int) -> None:
    """Submit, then drain, and print the rates of both."""
    await migrate(dsn)
    settings = ConnectionSettings(dsn=dsn)
    async with (
        ConnectionPool.to(settings, PoolSettings(size=connections)) as pool,
        open_store(pool, listening=settings) as store,
    ):
        await store.admission.ensure_lane(LANE, None)
        begun = time.perf_counter()
        for first in range(0, runs, BATCH):
            await store.admission.submit(submissions(first, BATCH), project_created=True)
        submitted_s = time.perf_counter() - begun
        worker = Worker(store, slots)
        begun, cpu = time.perf_counter(), time.process_time()
        await worker.drain()
        drained_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
    print(
        f"{slots} slots, {connections} connections, {worker.ended} runs: "
        f"submit {runs / submitted_s:.0f}/s in batches of {BATCH}, "
        f"claim to end {worker.ended / drained_s:.0f}/s, "
        f"{1e6 * cpu_s / worker.ended:.0f} us own CPU a run"
    )


async def main() -> None:
    """Measure on the server given, or on one made for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsn", nargs="?")
    parser.add_argument("--slots", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3_000)
    parser.add_argument("--connections", type=int, default=4)
    asked = parser.parse_args()
    if asked.dsn is not None:
        await measure(asked.dsn, asked.slots, asked.runs, asked.connections)
        return
    directory = Path(tempfile.mkdtemp(prefix="deepline-bench-"))
    directory.chmod(0o755)
    server = EmbeddedPostgres(directory / "postgres")
    try:
        await server.start()
        await measure(server.dsn(), asked.slots, asked.runs, asked.connections)
    finally:
        with trio.move_on_after(60, shield=True):
            await server.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    trio.run(main)
