"""Without notifications everything is as right as with them, only slower (F52, L12)."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.support.fleet import Fleet, short

pytestmark = [pytest.mark.processes, pytest.mark.slow]
DEAFEN = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
     where query ilike 'listen %' and pid <> pg_backend_pid()
"""
PERIOD_S = 0.1


def test_runs_end_though_nobody_hears(fleet: Fleet) -> None:
    """Whoever listens loses its session ten times a second, and all runs end in time."""
    with deafened(fleet.dsn) as killed:
        run_ids = fleet.submit(*[short(number) for number in range(6)])
        fleet.truth.wait_ended(run_ids, within_s=45)
        fleet.assert_sound()

    assert killed[0] > 3
    for number, run_id in enumerate(run_ids):
        assert fleet.truth.result(run_id)["output"] == {"answer": number}
        assert fleet.witness.words(run_id) == {"started": 1}
    for name in ("worker", "gateway", "controller"):
        assert fleet.roles[name].running


@contextmanager
def deafened(dsn: str) -> Iterator[list[int]]:
    """End every listening session again and again; yields how many it were."""
    killed = [0]
    over = threading.Event()

    def keep_deafening() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not over.wait(PERIOD_S):
                row = connection.execute(DEAFEN.encode()).fetchone()
                killed[0] += row[0] if row else 0

    thread = threading.Thread(target=keep_deafening)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()
