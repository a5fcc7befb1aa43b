"""The count of the store as series, and who shows it (C58, F78)."""

from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import trio
from prometheus_client import CollectorRegistry, generate_latest

from deepline.adapters.memory.clock import TrioTimeClock
from deepline.adapters.telemetry.census_series import LANES_MAX, CensusSeries, few_lanes
from deepline.cli.roles.controller import serve_controller
from deepline.cli.settings.controller import read_controller
from deepline.core.model.identity import Lane
from deepline.ports.census import Figures, LaneFigures, Pile
from tests.cli.deployments import LIMIT_S, ask, free_port, serving, variables
from tests.support.scrapes import Scrape
from tests.support.store import store_bench


def lane(number: int) -> LaneFigures:
    """A lane with as many queued runs as its number says, the oldest as old in seconds."""
    return LaneFigures(
        lane=Lane(f"lane-{number}"),
        queued=Pile(count=number, oldest=timedelta(seconds=number)),
        stale_leases=1,
        claimed_ago=timedelta(seconds=number),
    )


async def test_lanes_without_end_are_shown_in_a_bounded_number_of_series() -> None:
    """Releases come and go; beyond a bound the smallest lanes are one, and nothing is lost."""
    every = [lane(number) for number in range(LANES_MAX + 30)]
    figures = Figures(taken_at=TrioTimeClock().now(), lanes=every)

    few = few_lanes(figures)

    assert len(few.lanes) == LANES_MAX
    assert sum(one.queued.count for one in few.lanes) == sum(one.queued.count for one in every)
    assert sum(one.stale_leases for one in few.lanes) == len(every)
    other = few.lanes[-1]
    assert (other.lane, other.queued.oldest) == ("other", timedelta(seconds=30))
    assert other.claimed_ago == timedelta(0)
    assert few_lanes(few) == few


def test_a_lane_that_nobody_ever_served_has_no_end_of_waiting() -> None:
    """An alert on the age finds it too."""
    figures = Figures(taken_at=TrioTimeClock().now, lanes=[LaneFigures(lane=Lane("new"))])  # type: ignore[arg-type]  # nobody looks at the time
    registry = CollectorRegistry()
    registry.register(CensusSeries(lambda: figures, lambda: None))

    shown = Scrape.of(generate_latest(registry))

    assert shown.values("deepline_lane_last_claim_age_seconds", lane="new") == [float("inf")]
    assert shown.values("deepline_census_timestamp_seconds") == []


@pytest.mark.postgres
async def test_f78_one_controller_shows_what_the_database_holds(
    migrated_database: str, tmp_path: Path
) -> None:
    """Depth by state and age, cleanup, outbox and pool from a real database, without a run id."""
    ports = [free_port(), free_port()]
    roles = [
        read_controller(
            variables(migrated_database, tmp_path)
            | {"DEEPLINE_METRICS_PORT": str(port), "DEEPLINE_DUTY_LEASE_SECONDS": "2"}
        )
        for port in ports
    ]

    async def scraped(port: int) -> Scrape:
        return Scrape.of((await ask(f"http://127.0.0.1:{port}/metrics")).body)

    async with store_bench(migrated_database) as bench:
        await bench.parked("run-waiting")
        await bench.started("run-running")
        await bench.submit("run-queued")
        async with serving(partial(serve_controller, roles[0])):
            with trio.fail_after(LIMIT_S):
                while not (shown := await scraped(ports[0])).values("deepline_runs"):
                    await trio.sleep(0.05)
            async with serving(partial(serve_controller, roles[1])):
                other = await scraped(ports[1])
    for state in ("queued", "running", "waiting"):
        assert shown.total("deepline_runs", lane="runs", state=state) == 1
    assert shown.total("deepline_absurd_runtime_queue_depth") == 1
    assert shown.values("deepline_duty_held", duty="census") == [1]
    assert shown.total("deepline_pool_wait_seconds_count") > 0
    loops = {one.labels["loop"] for one in shown.samples if one.name == "deepline_loop_age_seconds"}
    assert {"outboxLoop", "recovery", "overdue", "stranded", "census"} <= loops
    assert "run-" not in repr(shown.samples)
    assert other.values("deepline_runs") == []
    assert other.values("deepline_duty_held", duty="census") == [0]
