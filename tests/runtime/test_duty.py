"""One process at a time does a duty, and a dead one is replaced within its lease (C02 role b)."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import attrs
import pytest
import trio
import trio.testing

from deepline.adapters.memory.faults import Faults
from deepline.adapters.memory.ports import open_ports
from deepline.core.model.run import RunStatus
from deepline.ports.errors import Unavailable
from deepline.runtime.duty import DutyHolder
from deepline.runtime.stop import Stop
from tests.runtime.sweep_worlds import GONE, ScriptedProvider, StallingStore, SweepWorld

LEASE_S = 30.0
AWAY = Unavailable("the database is away")


@attrs.define(eq=False)
class SlowAnswer:
    """A store that makes each step at once, and whose first answer takes long."""

    inner: Faults
    by_s: float

    async def before(self, operation: str) -> None:
        """Let it pass."""
        await self.inner.before(operation)

    async def after(self, operation: str) -> None:
        """Take the time, once."""
        by_s, self.by_s = self.by_s, 0.0
        await trio.sleep(by_s)

    def delivers(self, hint: str) -> bool:
        """Deliver everything."""
        return True


@attrs.define(eq=False)
class Office:
    """A duty over one store, and who does it at each moment."""

    world: SweepWorld = attrs.field(factory=SweepWorld)
    at_work: set[str] = attrs.field(factory=set)
    began: list[tuple[float, str]] = attrs.field(factory=list)

    def holder(self, owner: str, faults: Faults | None = None) -> DutyHolder:
        """A process that would do it."""
        store = StallingStore() if faults is None else faults
        return DutyHolder(
            duties=open_ports(self.world.world, store).duties,
            duty="sweep",
            owner=owner,
            telemetry=self.world.telemetry,
            lease=timedelta(seconds=LEASE_S),
        )

    def work(self, owner: str) -> Callable[[], Awaitable[None]]:
        """The duty itself: it must never be done twice at a time."""

        async def do() -> None:
            assert not self.at_work, f"{owner} joins {self.at_work}"
            self.at_work.add(owner)
            self.began.append((trio.current_time(), owner))
            try:
                await trio.sleep_forever()
            finally:
                self.at_work.discard(owner)

        return do

    async def run(self, owner: str, faults: Faults | None = None) -> None:
        """Do it whenever it is this owner's, until cancelled."""
        await self.holder(owner, faults).run(Stop(), self.work(owner))

    def names(self) -> list[str]:
        """What was said."""
        return [event.name for event in self.world.telemetry.events]


async def test_two_never_do_it_together(autojump_clock: trio.testing.MockClock) -> None:
    """The first keeps it for as long as it renews; the second waits."""
    office = Office()

    async with trio.open_nursery() as nursery:
        for owner in ("one", "two", "three"):
            nursery.start_soon(office.run, owner)
        await trio.sleep(1_000)
        assert len(office.began) == 1
        assert len(office.at_work) == 1
        nursery.cancel_scope.cancel()


async def test_a_dead_holder_is_replaced_within_its_lease(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It renews no more and releases nothing; another begins when its lease ends."""
    office, grave = Office(), StallingStore()

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as dead:
            dead.start_soon(office.run, "one", grave)
            await trio.sleep(41)
            nursery.start_soon(office.run, "two")
            await trio.sleep(1)
            grave.failing = {"duties.release": AWAY}
            dead.cancel_scope.cancel()
        died_at = trio.current_time()
        await trio.sleep(LEASE_S)
        (_, (began_at, owner)) = office.began
        assert owner == "two"
        assert began_at <= died_at + LEASE_S
        nursery.cancel_scope.cancel()


async def test_whoever_leaves_in_order_lets_it_go(autojump_clock: trio.testing.MockClock) -> None:
    """Another need not wait for the end of the lease."""
    office, stop = Office(), Stop()

    async def until_stopped() -> None:
        office.at_work.add("one")
        await stop.wait()
        office.at_work.discard("one")

    async with trio.open_nursery() as nursery:
        first = office.holder("one")
        nursery.start_soon(first.run, stop, until_stopped)
        await trio.sleep(1)
        assert first.is_held
        nursery.start_soon(office.run, "two")
        await trio.sleep(5)
        stop.request()
        await trio.sleep(LEASE_S / 3)
        assert office.world.world.duty_leases["sweep"].owner == "two"
        assert [owner for _, owner in office.began] == ["two"]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("stalls", [False, True])
async def test_a_holder_cut_off_from_the_store_stops_in_time(
    stalls: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Whether its renewals fail or hang, it has stopped before another may begin."""
    office, partition = Office(), StallingStore()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(office.run, "one", partition)
        await trio.sleep(25)
        if stalls:
            partition.stalled = {"duties.renew", "duties.take", "duties.release"}
        else:
            partition.failing = {"duties.renew": AWAY, "duties.release": AWAY}
            partition.stalled = {"duties.take"}
        nursery.start_soon(office.run, "two")
        await trio.sleep(LEASE_S + 5)
        assert office.at_work == {"two"}
        assert office.began[-1] == (20 + LEASE_S, "two")
        nursery.cancel_scope.cancel()

    assert "duty_lost" in office.names()
    assert ("duty_renewal_failed" in office.names()) is not stalls


async def test_a_holder_cut_off_stops_before_its_lease_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Clocks differ: what the holder counts as its lease the store may count as more."""
    office, partition = Office(), StallingStore()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(office.run, "one", partition)
        await trio.sleep(25)
        partition.stalled = {"duties.renew", "duties.take", "duties.release"}
        await trio.sleep_until(trio.current_time() - 5 + LEASE_S * 0.95)
        assert office.at_work == set()
        nursery.cancel_scope.cancel()


async def test_an_answer_that_comes_too_late_is_none(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nobody begins under a lease that ended while its answer was on the way."""
    office, late = Office(), SlowAnswer(StallingStore(), by_s=LEASE_S)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(office.run, "one", late)
        await trio.sleep(LEASE_S + 1)
        assert [at for at, _ in office.began] == [LEASE_S]
        assert office.names().count("duty_taken") == 1
        nursery.cancel_scope.cancel()


async def test_one_failed_renewal_is_no_loss(autojump_clock: trio.testing.MockClock) -> None:
    """The lease outlasts it, and the next renewal works."""
    office, store = Office(), StallingStore()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(office.run, "one", store)
        await trio.sleep(9)
        store.failing = {"duties.renew": AWAY}
        await trio.sleep(2)
        store.failing = {}
        await trio.sleep(200)
        assert len(office.began) == 1
        nursery.cancel_scope.cancel()

    assert office.names().count("duty_renewal_failed") == 1
    assert "duty_lost" not in office.names()


async def test_a_holder_that_was_replaced_learns_it(autojump_clock: trio.testing.MockClock) -> None:
    """A renewal that finds another's lease ends the work at once, and it waits in line again."""
    office = Office()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(office.run, "one")
        await trio.sleep(1)
        lease = office.world.world.duty_leases["sweep"]
        office.world.world.duty_leases["sweep"] = attrs.evolve(lease, owner="thief")
        await trio.sleep(10)
        assert office.at_work == set()
        await trio.sleep(LEASE_S)
        assert office.at_work == {"one"}
        nursery.cancel_scope.cancel()


async def test_work_that_fails_lets_the_duty_go(autojump_clock: trio.testing.MockClock) -> None:
    """Its supervisor begins again, here or elsewhere."""
    office = Office()

    async def fail() -> None:
        await trio.sleep(1)
        raise AWAY

    with pytest.RaisesGroup(Unavailable):
        await office.holder("one").run(Stop(), fail)

    assert office.world.world.duty_leases == {}


async def test_waiting_ends_when_stopped(autojump_clock: trio.testing.MockClock) -> None:
    """Who waits for a duty leaves at once, and takes nothing with it."""
    office, stop = Office(), Stop()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(office.run, "one")
        await trio.sleep(1)
        async with trio.open_nursery() as waiting:
            waiting.start_soon(office.holder("two").run, stop, office.work("two"))
            await trio.sleep(5)
            stop.request()
        assert trio.current_time() == 6
        nursery.cancel_scope.cancel()

    assert [owner for _, owner in office.began] == ["one"]


async def test_stopped_before_it_began(autojump_clock: trio.testing.MockClock) -> None:
    """Nothing is taken."""
    office, stop = Office(), Stop()
    stop.request()

    await office.holder("one").run(stop, office.work("one"))

    assert office.began == []


async def test_two_controllers_never_both_sweep(autojump_clock: trio.testing.MockClock) -> None:
    """A sandbox is read by one of them; when that dies the other takes the sweep over."""
    provider = ScriptedProvider(takes_s=1)
    world = SweepWorld(providers={"local": provider})
    world.park("run-1")

    async def controller(owner: str) -> None:
        holder = DutyHolder(
            duties=world.duties(), duty="sweep", owner=owner, telemetry=world.telemetry
        )
        await holder.run(stop := Stop(), lambda: world.sweep().run(stop))

    async with trio.open_nursery() as both:
        async with trio.open_nursery() as first:
            first.start_soon(controller, "one")
            await trio.sleep(0.5)
            both.start_soon(controller, "two")
            await trio.sleep(200)
            assert len(provider.asked) == 3
            first.cancel_scope.cancel()
        provider.answer = GONE
        await trio.sleep(30)
        assert world.status("run-1") is RunStatus.FAILED
        both.cancel_scope.cancel()
