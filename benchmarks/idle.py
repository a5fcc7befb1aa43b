"""What a worker costs while there is nothing to do.

The figures are counts, not ratios: transactions that the server saw on the worker's database
(each statement of ours in autocommit mode is one), and processor time of the worker's process,
over a time in which nothing is submitted. The SDK's worker at its default poll is told beside it.
"""

import time
from collections.abc import Iterator

import attrs

from benchmarks.databases import Databases, databases
from benchmarks.figures import Figure, at_most
from benchmarks.worker_process import worker_process

SECONDS = 30.0
# What a session did is counted within ten seconds of its falling idle.
COUNTED_WITHIN_S = 10.5


@attrs.frozen
class Cost:
    """Of an idle worker."""

    statements_per_s: float
    cpu_percent: float


def figures(_rounds: int) -> Iterator[Figure]:
    """Statements a second, and the share of one core in percent."""
    # Autovacuum would count among the transactions of the database.
    with databases({"autovacuum": "off"}) as made:
        with made.ours() as dsn:
            ours = _cost(made, "ours", dsn)
        with made.reference() as dsn:
            sdk = _cost(made, "sdk", dsn)
    yield Figure(
        name="idle statements/s",
        value=ours.statements_per_s,
        target=at_most(1.0),
        detail=f"over {SECONDS:.0f} s; absurd-sdk {sdk.statements_per_s:.2f}/s",
    )
    yield Figure(
        name="idle % of a core",
        value=ours.cpu_percent,
        target=at_most(1.0),
        detail=f"over {SECONDS:.0f} s; absurd-sdk {sdk.cpu_percent:.2f} %",
    )


def _cost(made: Databases, kind: str, dsn: str) -> Cost:
    with worker_process(kind, dsn) as worker:
        time.sleep(COUNTED_WITHIN_S)
        statements, cpu_s, begun = made.transactions(dsn), worker.cpu_s, time.monotonic()
        time.sleep(SECONDS)
        statements, cpu_s = made.transactions(dsn) - statements, worker.cpu_s - cpu_s
        taken_s = time.monotonic() - begun
        worker.finish()
    return Cost(statements / taken_s, 100 * cpu_s / taken_s)
