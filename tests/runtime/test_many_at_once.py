"""Many plays started at once on one worker lose no lease, over a real database (F31).

Their runners are tasks that beat and push as runners do, through connections of their own, since
hundreds of processes would measure the machine. Sandboxes take a while to come up, as real ones do,
so that every claim is held over several beats.

The short form is part of every test run; `make soak-tests` runs the one with 500.
"""

import io
import os
import random
import re
from datetime import timedelta

import attrs
import pytest
import trio

from deepline.adapters.memory import MemorySandboxProvider
from deepline.adapters.memory.ledger import MemoryLedger
from deepline.adapters.memory.sandbox_provider import Life
from deepline.adapters.memory.world import World
from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings
from deepline.adapters.postgres.store import PostgresStore, open_store
from deepline.adapters.system_clock import SystemClock
from deepline.adapters.telemetry import LogLines, Metrics, ProcessTelemetry, Redactor
from deepline.core.limits import Limits
from deepline.core.model.heartbeat import NoFence
from deepline.core.model.identity import AttemptKey, AttemptRef, Lane, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.result import Completed
from deepline.core.model.sandbox import Operation, Resources, SandboxRef
from deepline.core.model.why import Why
from deepline.ports.executor_tokens import ExecutorToken
from deepline.ports.sandbox_provider import RunnerStart
from deepline.runtime.sandbox_backend import SandboxBackend
from deepline.runtime.sandbox_settings import SandboxSettings
from deepline.runtime.stop import Stop
from deepline.runtime.worker import Worker, WorkerSettings
from deepline.runtime.worker_ports import WorkerPorts
from tests.runtime.worlds import launch_of, submission_of

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
POOL = 10
PUSHED = Why("runner.pushed")
ONLY_LONG = pytest.mark.skipif(
    "DEEPLINE_CHAOS_SEED" not in os.environ, reason="`make soak-tests` runs it"
)
_BUCKET = re.compile(r'deepline_heartbeat_lag_seconds_bucket\{.*le="([^"]+)"\} (\S+)')


@attrs.frozen(kw_only=True)
class Crowd:
    """How many plays start at once, under which lease, and how long a sandbox takes to come up."""

    plays: int
    lease_s: int
    create_s: float
    limit_s: float


SHORT = Crowd(plays=60, lease_s=6, create_s=5, limit_s=60)
LONG = Crowd(plays=500, lease_s=15, create_s=40, limit_s=300)


@attrs.define(eq=False)
class Tokens:
    """A gateway that answers at once."""

    async def mint(self, launch: Launch, ref: AttemptRef) -> ExecutorToken:
        """Give a token."""
        await trio.lowlevel.checkpoint()
        return ExecutorToken(f"token of {launch.run_id}")


@attrs.define(eq=False)
class SlowSandboxes(MemorySandboxProvider):
    """Sandboxes that take a while to come up; each then has a runner that lives in `nursery`."""

    create_s: float = attrs.field(kw_only=True)
    nursery: trio.Nursery = attrs.field(kw_only=True)
    store: PostgresStore = attrs.field(kw_only=True)
    started: int = 0

    def __attrs_post_init__(self) -> None:
        """Let each start of a runner begin its life."""
        self.life_of = self._begin

    async def create(self, operation: Operation, resources: Resources) -> SandboxRef:
        """Come up slowly."""
        await trio.sleep(self.create_s)
        return await super().create(operation, resources)

    def _begin(self, operation: Operation, start: RunnerStart) -> Life:
        self.started += 1
        run_id = RunId(start.environment["DEEPLINE_RUN_ID"])
        attempt = int(start.environment["DEEPLINE_ATTEMPT"])
        self.nursery.start_soon(self._live, AttemptKey(run_id, attempt))
        return Life()

    async def _live(self, key: AttemptKey) -> None:
        for _ in range(2):
            await self.store.liveness.beat(key)
            await trio.sleep(1)
        await self.store.terminals.offer(key, Completed(output="done"), NoFence(), PUSHED)


@pytest.mark.parametrize(
    "crowd",
    [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=ONLY_LONG)],
)
async def test_fault_F31_many_plays_at_once_lose_no_lease(
    crowd: Crowd, migrated_database: str, request: pytest.FixtureRequest
) -> None:
    """All end in one attempt; the exported p99 of the lag is under a third of the lease."""
    settings = ConnectionSettings(dsn=migrated_database)
    limits = Limits(claim_lease=timedelta(seconds=crowd.lease_s))
    run_ids = [f"run-{number}" for number in range(crowd.plays)]
    metrics, log = Metrics(), io.StringIO()
    lines = LogLines(log, clock=SystemClock(), redactor=Redactor(()))
    telemetry = ProcessTelemetry(lines, metrics, SystemClock())
    with trio.fail_after(crowd.limit_s):
        async with (
            ConnectionPool.to(settings, PoolSettings(size=POOL)) as pool,
            open_store(pool, listening=settings, limits=limits) as store,
            ConnectionPool.to(settings, PoolSettings(size=4)) as gateway_pool,
            open_store(gateway_pool, listening=settings, limits=limits) as gateway,
            trio.open_nursery() as nursery,
        ):
            sandboxes = SlowSandboxes(
                name="local", create_s=crowd.create_s, nursery=nursery, store=gateway
            )
            worker = worker_of(store, sandboxes, telemetry, limits, crowd)
            await store.admission.ensure_lane(Lane("runs"), None)
            submissions = [submission_of(launch_of(run_id), limits) for run_id in run_ids]
            await gateway.admission.submit(submissions, project_created=True)
            stop = Stop()
            await nursery.start(worker.serve, stop)
            await until_ended(gateway, crowd.plays)
            stop.request()
            attempts = await attempts_by_status(gateway_pool)

    assert attempts == {("completed", 1): crowd.plays}
    assert sandboxes.started == crowd.plays
    assert "run_cut" not in log.getvalue()
    assert "lease_extension_failed" not in log.getvalue()
    beats, p99_s = lag_of(metrics)
    said = f"{beats:g} beats of a lease of {crowd.lease_s} s, 99 in 100 late by at most {p99_s} s"
    request.node.add_report_section("call", "lag", f"{crowd.plays} plays: {said}")
    assert beats >= 2
    assert p99_s < crowd.lease_s / 3


def worker_of(
    store: PostgresStore,
    sandboxes: SlowSandboxes,
    telemetry: ProcessTelemetry,
    limits: Limits,
    crowd: Crowd,
) -> Worker:
    """A worker that has all plays in hand at the same time."""
    clock = SystemClock()
    backend = SandboxBackend(
        tokens=Tokens(),
        capacity=store.capacity,
        attempts=store.attempts,
        providers={"local": sandboxes},
        clock=clock,
        limits=limits,
        settings=SandboxSettings(default_provider="local", runner_pyz=b"runner"),
    )
    return Worker(
        ports=WorkerPorts(
            attempts=store.attempts,
            terminals=store.terminals,
            engine=store.engine,
            outbox=store.outbox,
            cleanup=store.cleanup,
            sheets=store.sheets,
            receipts=store.receipts,
            signals=store.signals,
            usage=store.usage,
            backend=backend,
            telemetry=telemetry,
            clock=clock,
            ledger=MemoryLedger(World()),
            lanes=store.lanes,
            providers={"local": sandboxes},
        ),
        settings=WorkerSettings(name="w1", slots=crowd.plays, limits=limits),
        chance=random.Random(1),
    )


async def until_ended(store: PostgresStore, plays: int) -> None:
    """Wait until no run of the lane is open."""
    while True:
        state = await store.lanes.read(Lane("runs"))
        assert state is not None
        if state.open_tasks == 0:
            return
        await trio.sleep(0.2)


async def attempts_by_status(pool: ConnectionPool) -> dict[tuple[str, int], int]:
    """How the runs stand, and how many attempts each took."""
    async with pool.lease() as connection:
        cursor = await connection.execute(
            "select status, attempt, count(*) from deepline.runs group by 1, 2"
        )
        return {(status, attempt): count for status, attempt, count in await cursor.fetchall()}


def lag_of(metrics: Metrics) -> tuple[float, float]:
    """How many beats there were, and the bound that 99 in 100 of them keep to, in seconds."""
    found = [(float(le), float(count)) for le, count in _BUCKET.findall(metrics.render().decode())]
    total = found[-1][1]
    return total, next(bound for bound, count in found if count >= 0.99 * total)
