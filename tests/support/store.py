"""A store on a database of the test's own, and short ways to bring runs where a test needs them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import attrs
import trio

from deepline.adapters.postgres.pool import ConnectionPool
from deepline.adapters.postgres.settings import ConnectionSettings, PoolSettings
from deepline.adapters.postgres.store import PostgresStore, open_store
from deepline.core.model.checkpoint import Checkpoint, SilenceWatch
from deepline.core.model.claim import Claim, Fresh, Prepared, Wake
from deepline.core.model.identity import AttemptKey, AttemptRef, Lane, OrgId, ReleaseId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.result import Completed, Failed
from deepline.core.model.sandbox import SandboxRef
from deepline.core.model.suspension import DetachedSuspension, EventSuspension, Suspension
from deepline.core.model.why import Why
from deepline.ports.admission import Submission
from deepline.ports.attempts import ClaimRequest, ParkOutcome
from deepline.ports.terminals import CommitOutcome, TerminalCommit

LANE = Lane("runs")
LOCAL = "local"
LATER = timedelta(hours=1)
WHY = Why("test.rule", {"seen": 1})
OUTPUT = Completed(output={"rows": 3})
FAILURE = Failed(error="RUNTIME_RUNNER_LOST: no beat")


@attrs.define
class StoreBench:
    """The store under test and the raw rows beside it."""

    store: PostgresStore
    pool: ConnectionPool
    dsn: str
    numbers: "count[int]" = attrs.field(factory=count)

    async def rows(self, query: str, *arguments: object) -> Sequence[Any]:
        """Run SQL in the database of the store; single columns come as bare values."""
        async with self.pool.lease() as connection:
            cursor = await connection.execute(query, arguments)
            if cursor.description is None:
                return []
            found = await cursor.fetchall()
        return [row[0] if len(row) == 1 else row for row in found]

    async def row(self, query: str, *arguments: object) -> Any:
        """The only row of a query."""
        (found,) = await self.rows(query, *arguments)
        return found

    async def until_none(self, query: str) -> None:
        """Wait until a query finds nothing, looking again after a moment; bounded."""
        for _ in range(1_000):
            if not await self.rows(query):
                return
            await trio.sleep(0.01)
        raise AssertionError(f"still there: {query}")

    async def submit(self, run_id: str = "run", **changes: Any) -> None:
        """Submit one run; its created fact is acknowledged unless `project_created` is false."""
        project_created = changes.pop("project_created", True)
        await self.store.admission.submit(
            [submission(run_id, **changes)], project_created=project_created
        )

    async def claim(self, quantity: int = 1, **changes: Any) -> Sequence[Prepared]:
        """Claim as a worker of its own."""
        request = ClaimRequest(
            lane=LANE,
            owner=f"owner-{next(self.numbers)}",
            worker="worker-1",
            lease=timedelta(seconds=60),
            quantity=quantity,
            org_limit=1_000,
            placement_keys=[LOCAL],
        )
        return await self.store.attempts.claim(attrs.evolve(request, **changes))

    async def claim_fresh(self, **changes: Any) -> Fresh:
        """Claim the one run there is, for the first time."""
        (prepared,) = await self.claim(**changes)
        assert isinstance(prepared, Fresh)
        return prepared

    async def claim_all_fresh(self, quantity: int) -> Sequence[Fresh]:
        """Claim as many fresh runs as there are, all of them at once."""
        prepared = [work for work in await self.claim(quantity) if isinstance(work, Fresh)]
        assert len(prepared) == quantity
        return prepared

    async def claim_wake(self, **changes: Any) -> Wake:
        """Claim the one run that is due, a parked one."""
        (prepared,) = await self.claim(**changes)
        assert isinstance(prepared, Wake)
        return prepared

    async def started(self, run_id: str = "run", **changes: Any) -> Fresh:
        """Submit and claim one run."""
        await self.submit(run_id, **changes)
        return await self.claim_fresh()

    async def bind(self, work: Fresh, operation_key: str = "operation") -> bool:
        """Record a sandbox on a fresh attempt."""
        return await self.store.attempts.bind_sandbox(
            work.attempt.ref,
            SANDBOX,
            detached(work.attempt.ref.attempt),
            operation_key=operation_key,
        )

    async def park(
        self,
        work: Fresh | Wake,
        suspension: Suspension | None = None,
        *,
        until: datetime | None = None,
        silence: SilenceWatch | None = None,
    ) -> ParkOutcome:
        """Park a run for long, on a detached runner unless told otherwise."""
        return await self.store.attempts.park(
            work.attempt.ref,
            work.claim,
            suspension or detached(work.attempt.ref.attempt),
            until=until or datetime.now(UTC) + LATER,
            checkpoint=Checkpoint(state={"at": "step"}),
            silence=silence,
            why=WHY,
        )

    async def parked(self, run_id: str = "run") -> Fresh:
        """Submit, claim, bind and park one run; answers what its claim held."""
        work = await self.started(run_id)
        assert await self.bind(work, f"operation-{run_id}")
        await self.park(work)
        return work

    async def commit(
        self, work: Fresh | Wake, result: Any = OUTPUT, **changes: Any
    ) -> CommitOutcome:
        """End a run under its claim."""
        return await self.store.terminals.commit(
            TerminalCommit(
                **{
                    "ref": work.attempt.ref,
                    "claim": work.claim,
                    "result": result,
                    "why": WHY,
                    **changes,
                }
            )
        )

    async def lose_claim(self, work: Fresh | Wake) -> None:
        """Let the claim of a run lapse, be swept, and its retry be due at once."""
        claim: Claim = work.claim
        await self.rows(
            f"update absurd.r_{claim.lane} set claim_expires_at = '-infinity' where run_id = %s",
            claim.engine_run_id,
        )
        assert await self.claim() == []
        await self.make_due(claim.run_id)

    async def make_due(self, run_id: str) -> None:
        """Bring the due time of a sleeping run to now."""
        await self.rows(
            "update absurd.r_runs r set available_at = absurd.current_time()"
            " from deepline.runs d where d.run_id = %s and d.task_id = r.task_id"
            " and r.state in ('sleeping', 'pending')",
            run_id,
        )

    async def engine_state(self, run_id: str = "run") -> str:
        """The state of a run's engine task."""
        return str(
            await self.row(
                "select t.state from absurd.t_runs t join deepline.runs d using (task_id)"
                " where d.run_id = %s",
                run_id,
            )
        )

    async def is_due(self, run_id: str = "run") -> bool:
        """Whether a claim would find the run now."""
        return bool(
            await self.row(
                "select exists (select from absurd.r_runs r join deepline.runs d using (task_id)"
                " where d.run_id = %s and r.state in ('pending', 'sleeping')"
                " and r.available_at <= absurd.current_time())",
                run_id,
            )
        )


def launch(run_id: str, org: str = "org", release: str | None = None) -> Launch:
    """A launch with the fields that must be there."""
    return Launch(
        run_id=RunId(run_id),
        org_id=OrgId(org),
        play_name="play",
        graph_hash="hash",
        base_url="http://runtime.test",
        release_id=None if release is None else ReleaseId(release),
    )


def submission(run_id: str, **changes: Any) -> Submission:
    """A submission on the base lane."""
    launch_changes = {name: changes.pop(name) for name in ("org", "release") if name in changes}
    request = Submission(
        launch=launch(run_id, **launch_changes),
        lane=LANE,
        input_json={"n": 1},
        placement_key=LOCAL,
        max_engine_attempts=2,
        finaliser_attempts=1,
    )
    return attrs.evolve(request, **changes)


SANDBOX = SandboxRef(provider="local", sandbox_id="sandbox-1", routing_domain="domain")


def detached(attempt: int) -> DetachedSuspension:
    """A runner in the sandbox of the tests."""
    return DetachedSuspension(
        boundary_id="boundary",
        runner_attempt=attempt,
        sandbox_id=SANDBOX.sandbox_id,
        sandbox_provider=SANDBOX.provider,
        session_id="session",
        command_id="command",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        ceiling=timedelta(hours=6),
        routing_domain=SANDBOX.routing_domain,
    )


def event(key: str = "approved", boundary_id: str = "boundary") -> EventSuspension:
    """A wait for an integration event."""
    return EventSuspension(boundary_id=boundary_id, runner_attempt=1, event_key=key)


def key_of(ref: AttemptRef) -> AttemptKey:
    """The attempt without its secret."""
    return AttemptKey(ref.run_id, ref.attempt)


@asynccontextmanager
async def store_bench(dsn: str, *, size: int = 6) -> AsyncIterator[StoreBench]:
    """Open the store on a migrated database."""
    settings = ConnectionSettings(dsn=dsn)
    async with (
        ConnectionPool.to(settings, PoolSettings(size=size)) as pool,
        open_store(pool, listening=settings) as store,
    ):
        await store.admission.ensure_lane(LANE, None)
        yield StoreBench(store, pool, dsn)
