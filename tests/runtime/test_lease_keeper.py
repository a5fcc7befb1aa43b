"""How late a worker's own heartbeats are, in figures (FAULTS F77, F78)."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
import trio
import trio.testing

from deepline.adapters.memory.telemetry import MemoryTelemetry
from deepline.core.model.claim import Claim
from deepline.core.model.identity import Lane, RunId
from deepline.ports.errors import Unavailable
from deepline.runtime.lease_keeper import LeaseKeeper

LEASE = timedelta(seconds=60)
CLAIM = Claim(
    run_id=RunId("run-1"),
    lane=Lane("runs"),
    task_id="task-1",
    engine_run_id="engine-run-1",
    owner="w1:1",
    engine_attempt=1,
    max_engine_attempts=5,
    claimed_at=datetime(2026, 1, 1, tzinfo=UTC),
)


class EverySecond:
    """Loses every second extension on its way, and ends claims as the store would."""

    def __init__(self) -> None:
        self.beats = 0
        self.until = trio.current_time() + LEASE.total_seconds()

    async def extend(self, claims: Sequence[Claim], lease: timedelta) -> Sequence[Claim]:
        """Extend each second time that is asked."""
        await trio.lowlevel.checkpoint()
        self.beats += 1
        if self.beats % 2:
            raise Unavailable("the request was lost")
        now = trio.current_time()
        if now > self.until:
            return claims
        self.until = now + lease.total_seconds()
        return ()


class SlowEngine:
    """Answers extensions late, or not at all for the first few."""

    def __init__(self, takes_s: float, refusals: int) -> None:
        self.takes_s = takes_s
        self.refusals = refusals

    async def extend(self, claims: Sequence[Claim], lease: timedelta) -> Sequence[Claim]:
        """Extend after a while."""
        await trio.sleep(self.takes_s)
        if self.refusals > 0:
            self.refusals -= 1
            raise Unavailable("the store is away")
        return ()


@pytest.mark.parametrize(
    ("takes_s", "refusals", "lag_s"),
    [
        pytest.param(0, 0, 0, id="F78-on-time"),
        pytest.param(2, 0, 2, id="F78-a-slow-store"),
        pytest.param(0, 2, 10, id="F78-late-by-two-refusals-that-were-repeated-after-5-s"),
    ],
)
async def test_a_heartbeat_that_takes_effect_late_shows_by_how_much(
    autojump_clock: trio.testing.MockClock, takes_s: float, refusals: int, lag_s: float
) -> None:
    """The lag counts from when the beat was due, whatever went wrong since."""
    telemetry = MemoryTelemetry()
    engine = SlowEngine(takes_s, refusals)
    keeper = LeaseKeeper(engine, LEASE, telemetry)  # type: ignore[arg-type]  # it extends, no more

    with keeper.hold(CLAIM, trio.current_time()), trio.move_on_after(45):
        await keeper.run()

    assert telemetry.observations["heartbeat_lag_s"][0] == pytest.approx(lag_s)


async def test_fault_F33_every_second_beat_is_lost(autojump_clock: trio.testing.MockClock) -> None:
    """There are three beats in a lease, so that one that is lost never looks like a death."""
    telemetry = MemoryTelemetry()
    engine = EverySecond()
    keeper = LeaseKeeper(engine, LEASE, telemetry)  # type: ignore[arg-type]  # it extends, no more

    with keeper.hold(CLAIM, trio.current_time()), trio.move_on_after(3_600) as hour:
        await keeper.run()

    assert hour.cancelled_caught
    assert engine.beats > 100
    assert "run_cut" not in [event.name for event in telemetry.events]


class Over:
    """Says of every claim that it is gone, as the store does once our own write has ended it."""

    async def extend(self, claims: Sequence[Claim], lease: timedelta) -> Sequence[Claim]:
        """Extend nothing."""
        await trio.lowlevel.checkpoint()
        return claims


@pytest.mark.parametrize(
    ("more_s", "is_cut"),
    [
        pytest.param(0.2, False, id="its-last-write-is-about-to-be-answered"),
        pytest.param(600, True, id="somebody-else-has-it"),
    ],
)
async def test_a_claim_that_is_gone_may_have_been_ended_by_its_own_work(
    autojump_clock: trio.testing.MockClock, more_s: float, is_cut: bool
) -> None:
    """An extension that overtakes the last write's answer cuts nothing; a lost claim is cut."""
    telemetry = MemoryTelemetry()
    keeper = LeaseKeeper(Over(), LEASE, telemetry)  # type: ignore[arg-type]  # it extends, no more
    went_on = False

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.run)
        with keeper.hold(CLAIM, trio.current_time()):
            await trio.sleep(LEASE.total_seconds() / 3 + more_s)
            went_on = True
        took_s = trio.current_time()
        nursery.cancel_scope.cancel()

    assert went_on is not is_cut
    said = [event.fields["reason"] for event in telemetry.events if event.name == "run_cut"]
    assert said == (["lease lost"] if is_cut else [])
    assert took_s < LEASE.total_seconds() / 2
