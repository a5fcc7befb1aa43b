"""What the metrics say of a deployment at work, and of one that only looks so (FAULTS K)."""

from datetime import timedelta

import pytest
import trio
import trio.testing

from deepline.adapters.memory.sandbox_provider import Life
from deepline.core.model.attempt import Attempt
from deepline.core.model.claim import Claim
from deepline.core.model.launch import Launch
from deepline.core.model.result import RunnerResult
from deepline.ports.errors import CapacityExceeded, Unavailable
from deepline.runtime.stop import Stop
from tests.operations.observed import Away, ObservedWorld
from tests.runtime.worlds import InProcessBackend

MINUTE = 60.0


async def hang(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
    """A play that never ends."""
    await trio.sleep_forever()
    raise AssertionError("unreachable")


async def test_f77_hung_plays_show_in_the_metrics_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Busy looks healthy; no completions and a growing age do not."""
    world, stop = ObservedWorld(), Stop()
    await world.submit_stamped("r1", "r2")
    world.worker_seen = world.worker(InProcessBackend(play=hang))

    async with trio.open_nursery() as nursery:
        await nursery.start(world.worker_seen.serve, stop)
        nursery.start_soon(world.census.run, stop)
        await trio.sleep(5 * MINUTE)
        first = world.scrape()
        await trio.sleep(5 * MINUTE)
        second = world.scrape()
        nursery.cancel_scope.cancel()

    prefix = "deepline_absurd_runtime_"
    assert second.total(f"{prefix}running") == 2
    assert second.total("deepline_runs", state="running") == 2
    assert second.total("deepline_run_terminals_total") == 0
    aged = [scrape.total(f"{prefix}oldest_running_seconds") for scrape in (first, second)]
    assert aged[1] - aged[0] == pytest.approx(5 * MINUTE)
    [oldest] = second.values("deepline_runs_oldest_seconds", lane="runs", state="running")
    assert oldest == pytest.approx(10 * MINUTE, abs=20)
    assert second.total("deepline_lane_running_without_lease") == 0
    assert second.total("deepline_loop_age_seconds", loop="claimLoop") < 10


async def test_f77_a_silent_heart_shows_its_age(autojump_clock: trio.testing.MockClock) -> None:
    """The oldest heartbeat of a runner that works on its own is a series."""
    world, stop = ObservedWorld(life=Life(runs_for=timedelta(hours=2))), Stop()
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        await world.until_parked("r1")
        await world.beat("r1")
        nursery.start_soon(world.census.run, stop)
        await trio.sleep(5 * MINUTE)
        shown = world.scrape()
        nursery.cancel_scope.cancel()

    assert shown.total("deepline_parked_runners") == 1
    assert shown.total("deepline_silent_runners") == 1
    assert shown.total("deepline_parked_runners_silence_seconds") > 4 * MINUTE


async def test_f78_waits_lengths_and_ends_are_told_apart(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A run that waited a minute and took two lands in those buckets, its end under its rule."""

    async def two_minutes(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        await trio.sleep(2 * MINUTE)
        return await InProcessBackend().play(launch, attempt, claim)

    world, stop = ObservedWorld(), Stop()
    await world.submit_stamped("r1")
    await trio.sleep(MINUTE + 1)

    async with trio.open_nursery() as nursery:
        await nursery.start(world.worker(InProcessBackend(play=two_minutes)).serve, stop)
        await world.until_ended("r1")
        await trio.sleep(1)
        shown = world.scrape()
        stop.request()

    def bucket(name: str, le: str) -> float:
        return shown.total(f"{name}_bucket", le=le)

    assert bucket("deepline_run_wait_seconds", "60.0") == 0
    assert bucket("deepline_run_wait_seconds", "300.0") == 1
    assert bucket("deepline_run_duration_seconds", "60.0") == 0
    assert bucket("deepline_run_duration_seconds", "300.0") == 1
    assert shown.total("deepline_run_terminals_total", status="completed") == 1
    [reason] = [
        one.labels["reason"] for one in shown.by_name["deepline_run_ends_total"] if one.value > 0
    ]
    assert "." in reason
    assert shown.total("deepline_outbox_delivery_seconds_count") == 2


async def test_f78_a_late_write_is_counted_as_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A play that ends after its run was cancelled elsewhere writes nothing, visibly."""
    world, stop = ObservedWorld(), Stop()

    async def cancelled_meanwhile(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        world.world.drop_listeners()
        await world.cancel("r1")
        return await InProcessBackend().play(launch, attempt, claim)

    await world.submit_stamped("r1")
    async with trio.open_nursery() as nursery:
        await nursery.start(world.worker(InProcessBackend(play=cancelled_meanwhile)).serve, stop)
        await world.until_ended("r1")
        await trio.sleep(1)
        shown = world.scrape()
        stop.request()

    assert shown.total("deepline_stale_writes_refused_total", operation="fence_lost") == 1
    assert shown.total("deepline_run_terminals_total", status="completed") == 0


async def test_f78_deferrals_are_counted_by_reason(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A run that waits for capacity spends nothing and shows."""
    world, stop = ObservedWorld(), Stop()
    refused: list[str] = []

    async def full_once(launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        if not refused:
            refused.append(launch.run_id)
            raise CapacityExceeded("no room", timedelta(seconds=5), "provider")
        return await InProcessBackend().play(launch, attempt, claim)

    await world.submit_stamped("r1")
    async with trio.open_nursery() as nursery:
        await nursery.start(world.worker(InProcessBackend(play=full_once)).serve, stop)
        await world.until_ended("r1")
        shown = world.scrape()
        stop.request()

    assert shown.total("deepline_deferrals_total", reason="capacity") == 1
    assert shown.total("deepline_run_wait_seconds_count") == 1


async def test_f78_cleanup_shows_its_backlog_and_what_came_of_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """While the provider refuses to delete, the obligation ages; then it is gone."""
    world, stop = ObservedWorld(), Stop()
    await world.submit("r1")

    async with trio.open_nursery() as nursery:
        await nursery.start(world.sandbox_worker().serve, stop)
        await world.until_parked("r1")
        nursery.start_soon(world.census.run, stop)
        world.provider.faults = faults = Away("local.delete")
        await world.push("r1")
        await trio.sleep(5 * MINUTE)
        owed = world.scrape()
        faults.operations.clear()
        await world.until_clean()
        await trio.sleep(20)
        done = world.scrape()
        nursery.cancel_scope.cancel()

    outcomes = "deepline_cleanup_outcomes_total"
    assert owed.total("deepline_cleanup_jobs") == 1
    assert owed.total("deepline_cleanup_oldest_seconds") > 4 * MINUTE
    assert owed.total(outcomes, provider="local", outcome="failed") > 1
    assert owed.total(outcomes, outcome="deleted") == 0
    assert owed.total("deepline_sandboxes_held", provider="local") == 1
    assert done.total(outcomes, provider="local", outcome="deleted") == 1
    assert done.total("deepline_cleanup_jobs") == done.total("deepline_sandboxes_held") == 0


async def test_a_count_that_fails_shows_no_figures(autojump_clock: trio.testing.MockClock) -> None:
    """An old figure would look true; when this process last counted stays visible."""
    world, stop = ObservedWorld(), Stop()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.census.run, stop)
        await trio.sleep(1)
        before = world.scrape()
        world.census.census = Broken()  # type: ignore[assignment]  # it refuses, no more
        await trio.sleep(30)
        after = world.scrape()
        stop.request()

    assert before.values("deepline_outbox_facts") == [0]
    assert after.values("deepline_outbox_facts") == []
    assert after.values("deepline_census_timestamp_seconds") == before.values(
        "deepline_census_timestamp_seconds"
    )
    assert after.total("deepline_events_total", event="census_failed") >= 1


class Broken:
    """A store that does not count."""

    async def take(self, **_: object) -> None:
        """Refuse."""
        raise Unavailable("away")
