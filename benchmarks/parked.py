"""What it costs to have 100,000 runs parked: the worker's memory, its idle load, and one wake.

A hundred runs are made, claimed and parked through the store as a worker does it, each waiting for
an event that does not come; the others are copies of their rows under ids of their own. Then a
worker in a process of its own has nothing to do, and is looked at from outside. A wake is what the
store is asked from the event's arrival until the run runs again: the event stored, the claim, the
attempt resumed. Its time is the processor time of the server's session; how long the caller waited,
for the disk and for other programs too, is told beside it.
"""

import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import trio

from benchmarks.databases import LANE, databases
from benchmarks.figures import Figure, at_most
from benchmarks.idle import COUNTED_WITHIN_S, SECONDS
from benchmarks.noop_workers import opened_store, submission, submissions
from benchmarks.worker_process import processor_s, worker_process
from deepline.adapters.postgres.store import PostgresStore
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.claim import Fresh, Wake
from deepline.core.model.identity import RunId
from deepline.core.model.signal import Signal
from deepline.core.model.suspension import EventSuspension
from deepline.core.model.why import Why
from deepline.ports.attempts import ClaimRequest, Parked

RUNS = 100_000
BATCH = 100
WAKES = 200
EVENT = "go"
SIGNAL = Signal(event_key=EVENT, boundary_id="wait", payload={})
KEYS = (submission(0).placement_key,)
WHY = Why("parking.benchmark", {"because": "it is measured"})
_ID = "t.run_id || '-' || n"
_TASK = "md5(t.task_id::text || n)::uuid"
COPIED = {
    "deepline.launches": f"'run_id', {_ID},"
    f" 'launch', t.launch || jsonb_build_object('runId', {_ID})",
    "deepline.runs": f"'run_id', {_ID}, 'task_id', {_TASK},"
    " 'engine_run_id', md5(t.engine_run_id::text || n)::uuid",
    "deepline.attempts": f"'run_id', {_ID}",
    "deepline.outbox": f"'run_id', {_ID}, 'event_id', t.event_id || '-' || n",
    "absurd.t_runs": f"'task_id', {_TASK}, 'idempotency_key', t.idempotency_key || '-' || n,"
    " 'params', t.params || jsonb_build_object('run_id', (t.params ->> 'run_id') || '-' || n)",
    "absurd.r_runs": f"'run_id', md5(t.run_id::text || n)::uuid, 'task_id', {_TASK}",
}
"""What differs between the rows of one run and those of its copies, by table."""
FAR = timedelta(days=30)
LEASE = timedelta(seconds=60)


def figures(_rounds: int) -> Iterator[Figure]:
    """Memory of the worker, its idle load, and the time of one wake."""
    with databases({"autovacuum": "off", "fsync": "on"}) as made, made.ours() as dsn:
        trio.run(_park_some, dsn)
        made_s = _copy_all(dsn)
        with worker_process("ours", dsn) as worker:
            time.sleep(COUNTED_WITHIN_S)
            statements, cpu_s, begun = made.transactions(dsn), worker.cpu_s, time.monotonic()
            time.sleep(SECONDS)
            statements, cpu_s = made.transactions(dsn) - statements, worker.cpu_s - cpu_s
            taken_s = time.monotonic() - begun
            memory_mib = _memory_max_mib(worker.process.pid)
            worker.finish()
        server_ms, waited_ms = trio.run(_wakes_ms, dsn)
    detail = f"{RUNS:,} runs parked, copied in {made_s:.0f} s"
    yield Figure(
        name="parked: worker MiB", value=memory_mib, target=at_most(200), detail=f"peak; {detail}"
    )
    yield Figure(
        name="parked: statements/s",
        value=statements / taken_s,
        target=at_most(1.0),
        detail=f"over {taken_s:.0f} s",
    )
    yield Figure(
        name="parked: % of a core",
        value=100 * cpu_s / taken_s,
        target=at_most(1.0),
        detail=f"over {taken_s:.0f} s",
    )
    yield Figure(
        name="parked: one wake, ms",
        value=server_ms,
        target=at_most(10.0),
        detail=f"mean of {WAKES}; waited for: median {statistics.median(waited_ms):.1f} ms,"
        f" {min(waited_ms):.1f} to {max(waited_ms):.1f}",
    )


def _copy_all(dsn: str) -> float:
    begun = time.monotonic()
    with psycopg.connect(dsn, autocommit=True) as connection:
        for table, changes in COPIED.items():
            connection.execute(
                f"insert into {table} select (jsonb_populate_record(t, jsonb_build_object("
                f"{changes}))).* from {table} t cross join generate_series(1, %s) n".encode(),
                (RUNS // BATCH - 1,),
            )
        connection.execute("analyze")
        [[parked]] = connection.execute(
            "select count(*) from deepline.attempts a join deepline.runs r using (run_id)"
            " join absurd.r_runs e on e.run_id = r.engine_run_id and e.task_id = r.task_id"
            " where a.status = 'waiting' and e.state = 'sleeping'"
        ).fetchall()
    assert parked == RUNS, parked
    return time.monotonic() - begun


async def _park_some(dsn: str) -> None:
    async with opened_store(dsn) as store:
        await store.admission.submit(submissions(0, BATCH), project_created=True)
        found = await store.attempts.claim(_claim("park", BATCH))
        async with trio.open_nursery() as nursery:
            for fresh in found:
                assert isinstance(fresh, Fresh), fresh
                nursery.start_soon(_park, store, fresh)


async def _park(store: PostgresStore, held: Fresh | Wake) -> None:
    outcome = await store.attempts.park(
        held.attempt.ref,
        held.claim,
        EventSuspension(
            boundary_id="wait", runner_attempt=held.attempt.ref.attempt, event_key=EVENT
        ),
        until=datetime.now(UTC) + FAR,
        checkpoint=Checkpoint(),
        silence=None,
        why=WHY,
    )
    assert isinstance(outcome, Parked), outcome


async def _wakes_ms(dsn: str) -> tuple[float, list[float]]:
    taken: list[float] = []
    async with opened_store(dsn, connections=1) as store:
        [[session]] = await store.steps.read("select pg_backend_pid()")
        used_s = processor_s(int(str(session)))
        for number in range(WAKES):
            run_id = RunId(f"run-{number % BATCH}-{1 + number // BATCH}")
            begun = time.perf_counter()
            await store.signals.put(run_id, SIGNAL, signal_id=None)
            [wake] = await store.attempts.claim(_claim(f"wake-{number}", 1))
            assert isinstance(wake, Wake), wake
            assert await store.attempts.resume(wake.attempt.ref, wake.claim, Checkpoint())
            taken.append(1000 * (time.perf_counter() - begun))
            assert wake.claim.run_id == run_id
        used_s = processor_s(int(str(session))) - used_s
    return 1000 * used_s / WAKES, taken


def _claim(owner: str, quantity: int) -> ClaimRequest:
    return ClaimRequest(
        lane=LANE,
        owner=owner,
        worker="benchmark",
        lease=LEASE,
        quantity=quantity,
        org_limit=RUNS,
        placement_keys=KEYS,
    )


def _memory_max_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise LookupError("the system does not tell a process's memory")
