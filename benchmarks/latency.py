"""How long a run waits for its worker, and a client for its end.

A client in this process submits about 20 runs a second, at random distances, so that they fall
anywhere between two polls. The worker is a process of its own: ours, or the SDK's at its default
poll. Both clocks are the machine's monotonic one. Submitted is the moment before the client calls;
claimed, the moment at which the worker starts the run; visible, the moment at which the client,
woken by the store's hint, has read that the run has ended.
"""

import random
import statistics
import time
from collections.abc import Iterator

import attrs
import trio

from benchmarks.databases import LANE, Databases, databases
from benchmarks.figures import Figure, Turns, at_most
from benchmarks.noop_workers import TASK, opened_store, submission
from benchmarks.worker_process import worker_process
from deepline.adapters.postgres.connection import TrioConnection
from deepline.adapters.postgres.store import PostgresStore
from deepline.core.model.identity import RunId
from deepline.ports.engine import Wakeups

RUNS = 60
PER_SECOND = 20
_LAST_END_S = 5.0


@attrs.frozen
class Latencies:
    """Medians of one round, in milliseconds."""

    claimed_ms: float
    visible_ms: float


def figures(rounds: int) -> Iterator[Figure]:
    """Submit to claimed against the SDK's worker; submit to visible against submit to claimed."""
    claims: list[tuple[float, float]] = []
    ends: list[tuple[float, float]] = []
    with databases() as made:
        for _ in range(rounds):
            theirs = reference_round(made)
            ours = our_round(made)
            claims.append((theirs, ours.claimed_ms))
            ends.append((ours.claimed_ms, ours.visible_ms))
    claimed, visible = Turns(claims), Turns(ends)
    yield Figure(
        name="submit to claimed",
        value=claimed.ratio,
        target=at_most(0.1),
        detail=claimed.told(" ms", "absurd-sdk polling"),
    )
    yield Figure(
        name="submit to terminal visible",
        value=visible.ratio,
        target=at_most(3.0),
        detail=visible.told(" ms", "to claimed"),
    )


def our_round(made: Databases) -> Latencies:
    """Our worker and a client that waits by hints."""
    with made.ours() as dsn, worker_process("ours", dsn) as worker:
        client = _Client()
        trio.run(client.run, dsn)
        claimed = worker.finish()
    assert len(claimed) == len(client.visible) == RUNS, "every run starts and ends"
    return Latencies(
        claimed_ms=_median_ms(client.submitted, claimed),
        visible_ms=_median_ms(client.submitted, client.visible),
    )


def reference_round(made: Databases) -> float:
    """The SDK's worker; the median of spawn to start in milliseconds."""
    submitted: dict[str, float] = {}

    async def spawn_all(dsn: str) -> None:
        async with await TrioConnection.connect(dsn, autocommit=True) as connection:
            for name, pause_s in _arrivals():
                await trio.sleep(pause_s)
                submitted[name] = time.monotonic()
                await connection.execute(
                    "select absurd.spawn_task(%s, %s, jsonb_build_object('name', %s::text), '{}')",
                    (LANE, TASK, name),
                )
            await trio.sleep(1.0)

    with made.reference() as dsn, worker_process("sdk", dsn) as worker:
        trio.run(spawn_all, dsn)
        claimed = worker.finish()
    assert len(claimed) == RUNS, "every task starts"
    return _median_ms(submitted, claimed)


class _Client:
    """Submits runs and looks at each when it hears that it has ended."""

    def __init__(self) -> None:
        self.submitted: dict[str, float] = {}
        self.visible: dict[str, float] = {}
        self._all_ended = trio.Event()

    async def run(self, dsn: str) -> None:
        """Submit all and wait for all."""
        async with opened_store(dsn) as store, trio.open_nursery() as nursery:
            listening = trio.Event()

            def ended(run_id: RunId) -> None:
                nursery.start_soon(self._look, store, run_id)

            nursery.start_soon(
                store.engine.listen,
                Wakeups(
                    lane_woken=lambda _: None,
                    run_cancelled=lambda _: None,
                    run_ended=ended,
                    rescan=listening.set,
                ),
            )
            await listening.wait()
            for name, pause_s in _arrivals():
                await trio.sleep(pause_s)
                nursery.start_soon(self._submit, store, name)
            with trio.fail_after(_LAST_END_S):
                await self._all_ended.wait()
            nursery.cancel_scope.cancel()

    async def _submit(self, store: PostgresStore, name: str) -> None:
        self.submitted[name] = time.monotonic()
        number = int(name.removeprefix("run-"))
        await store.admission.submit([submission(number)], project_created=True)

    async def _look(self, store: PostgresStore, run_id: RunId) -> None:
        status = await store.terminals.status(run_id)
        assert status is not None
        assert status.value == "completed"
        self.visible[run_id] = time.monotonic()
        if len(self.visible) == RUNS:
            self._all_ended.set()


def _arrivals() -> Iterator[tuple[str, float]]:
    """The names of the runs, and how long to wait before each, in seconds."""
    chance = random.Random(RUNS)
    for number in range(RUNS):
        yield f"run-{number}", 2 * chance.random() / PER_SECOND


def _median_ms(since: dict[str, float], until: dict[str, float]) -> float:
    return 1_000 * statistics.median(until[name] - since[name] for name in since)
