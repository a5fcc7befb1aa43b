"""Workers whose runs do nothing: our own over the Postgres store, and the engine's own SDK's."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from absurd_sdk import AsyncAbsurd, AsyncTaskContext

from benchmarks.databases import LANE
from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings
from deepline.adapters.postgres.store import PostgresStore, open_store
from deepline.adapters.system_clock import SystemClock
from deepline.adapters.telemetry import LogFormat, LogLines, Metrics, ProcessTelemetry, Redactor
from deepline.core.model.attempt import Attempt
from deepline.core.model.claim import Claim
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.launch import Launch
from deepline.core.model.result import Completed, RunnerResult
from deepline.core.model.sandbox import Inspection
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.placement import placement_key
from deepline.ports.admission import Submission
from deepline.runtime.stop import Stop
from deepline.runtime.worker import Worker, WorkerSettings
from deepline.runtime.worker_ports import WorkerPorts

TASK = "no-op"
CONNECTIONS = 4
ORGANISATIONS = 10
TOO_LONG_S = 120

OnStart = Callable[[str], None]
"""Is told the name of each run as it starts."""


class NoOpBackend:
    """Completes every run at once, in this process."""

    def __init__(self, on_start: OnStart) -> None:
        self._on_start = on_start

    async def execute(self, launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        """Do nothing."""
        self._on_start(launch.run_id)
        return Completed(output=None)

    async def ensure_started(
        self, launch: Launch, attempt: Attempt, suspension: DetachedSuspension, claim: Claim
    ) -> DetachedSuspension:
        """Nothing is left unstarted."""
        return suspension

    async def inspect(self, suspension: DetachedSuspension) -> Inspection | None:
        """There is nothing to look at."""
        return None


class Tally(ProcessTelemetry):
    """A worker's real telemetry, its lines thrown away, that tells when so many runs have ended."""

    def __init__(
        self, wanted: int | None = None, on_enough: Callable[[], None] = lambda: None
    ) -> None:
        clock = SystemClock()
        nowhere = Path(os.devnull).open("w")  # noqa: SIM115, open as long as we are
        lines = LogLines(nowhere, clock=clock, redactor=Redactor(), shape=LogFormat.JSON)
        super().__init__(lines, Metrics({}), clock)
        self._wanted = wanted
        self._on_enough = on_enough
        self.ended = 0
        self.troubles: list[str] = []

    def warn(self, channel: str, name: str, **fields: Json) -> None:
        """A benchmark goes without trouble."""
        self.troubles.append(f"{name} {fields}")
        super().warn(channel, name, **fields)

    def error(self, channel: str, name: str, **fields: Json) -> None:
        """A benchmark goes without trouble."""
        self.troubles.append(f"{name} {fields}")
        super().error(channel, name, **fields)

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Count ended runs; nothing that a benchmark submits is put off."""
        super().count(name, amount, **labels)
        if name == "deferrals":
            self.troubles.append(f"deferral {labels}")
        if name == "run_terminals":
            self.ended += 1
            if self.ended == self._wanted:
                self._on_enough()


@asynccontextmanager
async def opened_store(dsn: str, connections: int = CONNECTIONS) -> AsyncIterator[PostgresStore]:
    """The store of record over a pool of that size."""
    settings = ConnectionSettings(dsn=dsn)
    async with (
        ConnectionPool.to(settings, PoolSettings(size=connections)) as pool,
        open_store(pool, listening=settings) as store,
    ):
        yield store


def our_worker(store: PostgresStore, *, slots: int, on_start: OnStart, tally: Tally) -> Worker:
    """The real worker with a backend that does nothing.

    It has no ledger: delivering the outbox is another process's duty, and another figure.
    """
    ports = WorkerPorts(
        attempts=store.attempts,
        terminals=store.terminals,
        engine=store.engine,
        outbox=store.outbox,
        cleanup=store.cleanup,
        sheets=store.sheets,
        receipts=store.receipts,
        signals=store.signals,
        usage=store.usage,
        backend=NoOpBackend(on_start),
        telemetry=tally,
        clock=SystemClock(),
    )
    settings = WorkerSettings(name="benchmark", lane=LANE, slots=slots)
    return Worker(ports=ports, settings=settings, chance=random.Random(1))


def submissions(first: int, count: int) -> Sequence[Submission]:
    """Small launches of ten organisations."""
    return [submission(number) for number in range(first, first + count)]


def submission(number: int) -> Submission:
    """A small launch."""
    launch = Launch(
        run_id=RunId(f"run-{number}"),
        org_id=OrgId(f"org-{number % ORGANISATIONS}"),
        play_name="play",
        graph_hash="hash",
        base_url="http://runtime.invalid",
    )
    return Submission(
        launch=launch,
        lane=LANE,
        input_json={"n": number},
        placement_key=placement_key(launch),
        max_engine_attempts=5,
        finaliser_attempts=3,
    )


def run_our_worker(dsn: str, *, slots: int, runs: int) -> float:
    """Work off `runs` submitted runs; returns the seconds from the start to the last commit.

    The time holds everything from `serve` on: listening, claiming, and stopping in order.
    """

    async def work() -> float:
        async with opened_store(dsn) as store:
            stop = Stop()
            tally = Tally(wanted=runs, on_enough=stop.request)
            worker = our_worker(store, slots=slots, on_start=lambda _: None, tally=tally)
            begun = time.perf_counter()
            with trio.move_on_after(TOO_LONG_S):
                await worker.serve(stop)
            taken_s = time.perf_counter() - begun
            assert tally.ended == runs, f"{tally.ended} of {runs} runs ended"
            assert not tally.troubles, tally.troubles[:3]
            return taken_s

    return trio.run(work)


def sdk_worker(dsn: str, on_start: Callable[[JsonObject], None]) -> AsyncAbsurd:
    """The SDK's client with one task that does nothing."""
    app = AsyncAbsurd(dsn, queue_name=LANE)

    @app.register_task(TASK)
    async def no_op(params: JsonObject, _context: AsyncTaskContext) -> None:
        on_start(params)

    return app


def run_sdk_worker(dsn: str, *, concurrency: int, tasks: int) -> float:
    """Work off `tasks` spawned tasks with the SDK's worker; returns the seconds it took."""

    async def work() -> float:
        started = 0

        def on_start(_: JsonObject) -> None:
            nonlocal started
            started += 1
            if started == tasks:
                app.stop_worker()  # it comes back when what it has claimed is completed

        app = sdk_worker(dsn, on_start)
        begun = time.perf_counter()
        await app.start_worker(concurrency=concurrency)
        taken_s = time.perf_counter() - begun
        await app.close()
        return taken_s

    return asyncio.run(work())
