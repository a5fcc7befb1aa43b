"""Workers among lanes: adopting those without workers, and leaving one's own (C56, C57, L11)."""

from collections.abc import Callable, Sequence
from datetime import timedelta

import attrs
import pytest
import trio
import trio.testing

from deepline.core.lane_adoption import AdoptionPolicy
from deepline.core.model.attempt import Attempt
from deepline.core.model.claim import Claim
from deepline.core.model.identity import AttemptKey, Lane, ReleaseId
from deepline.core.model.json_value import JsonObject
from deepline.core.model.lane import LaneState
from deepline.core.model.launch import Launch
from deepline.core.model.result import Completed, RunnerResult
from deepline.core.model.run import RunStatus
from deepline.core.queues import lane_of_release
from deepline.ports.errors import Unavailable
from deepline.ports.lanes import LaneBeat, Lanes, ServedLane
from deepline.runtime.lane_adoption import LaneAdoption
from deepline.runtime.lane_service import LaneService
from deepline.runtime.lane_watch import LaneWatch
from deepline.runtime.stop import Stop
from deepline.runtime.worker import BadConfiguration, Worker
from deepline.runtime.worker_lanes import adoption_settings
from tests.runtime.suspending_worlds import SuspendingWorld
from tests.runtime.worlds import InProcessBackend, SmallWorld

NAP = timedelta(hours=1)
MINUTE_S = 60.0
OLD = lane_of_release(ReleaseId("a"))
NEW = lane_of_release(ReleaseId("b"))


def napping(world: SuspendingWorld, key: AttemptKey, answers: JsonObject) -> RunnerResult:
    """A play that sleeps once."""
    if "nap" not in answers:
        return world.sleep(key, "nap", NAP)
    return Completed(output=sorted(answers))


async def settled(seconds: float = MINUTE_S) -> None:
    """Let a while pass, longer than the periods of a worker."""
    await trio.sleep(seconds)


async def test_a_parked_run_of_a_lane_without_workers_wakes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Another release's worker adopts its lane and brings it to its end, once (L11)."""
    async with trio.open_nursery() as nursery:
        world = SuspendingWorld(play=napping, nursery=nursery)
        await world.submit("r1", release="a")
        crash = trio.CancelScope()
        nursery.start_soon(_serve_within, world.sandbox_worker(release="a"), crash)
        await world.until_waiting_for("r1", "nap")
        crash.cancel()
        stop, lanes = Stop(), world.ports.lanes
        await world.submit("r2", release="b")
        await nursery.start(world.sandbox_worker("w2", release="b", lanes=lanes).serve, stop)
        [run] = await world.until_ended("r1", every=timedelta(seconds=1))
        attached = world.telemetry.named("adoption_attached")
        stop.request()

    assert run.status is RunStatus.COMPLETED
    assert run.attempt == 1
    assert [event.fields["queue"] for event in attached] == [OLD]
    assert attached[0].fields["workerReleaseId"] == "b"
    assert await world.terminal_facts("r1") == ["run.completed"]


async def _serve_within(worker: Worker, scope: trio.CancelScope) -> None:
    with scope:
        await worker.serve(Stop())


async def test_queued_runs_begin_elsewhere_only_by_policy(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A worker that adopts what had begun leaves queued runs, until the lane is handed over."""
    world, backend, stop = SmallWorld(), InProcessBackend(), Stop()
    await world.submit("r1", "r2", release="a")
    await _left_begun(world)
    async with trio.open_nursery() as nursery:
        worker = world.worker(backend, release="b", lanes=world.ports.lanes)
        await world.submit("own", release="b")
        await nursery.start(worker.serve, stop)
        await settled(600)
        before = list(backend.executed)
        await world.ports.lanes.hand_over(OLD)
        await world.until_ended("r1", "r2")
        stop.request()

    assert sorted(before) == ["own", "r1"]
    assert sorted(backend.executed) == ["own", "r1", "r2"]


async def _left_begun(world: SmallWorld) -> None:
    """Have one run of the old lane claimed by a worker that dies with it."""

    async def hang(_: Launch, __: Attempt, ___: Claim) -> RunnerResult:
        await trio.sleep_forever()
        raise AssertionError

    with trio.CancelScope() as crash:
        async with trio.open_nursery() as nursery:
            worker = world.worker(InProcessBackend(play=hang), name="dead", slots=1, release="a")
            await nursery.start(worker.serve, Stop())
            await trio.sleep(1)
            crash.cancel()


async def test_all_open_runs_are_adopted_where_the_policy_says_so(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Then a lane that was never served is adopted too, once it was quiet for long (Q43)."""
    world, backend, stop = SmallWorld(), InProcessBackend(), Stop()
    await world.submit("r1", release="a")
    await world.submit("own", release="b")
    async with trio.open_nursery() as nursery:
        worker = world.worker(
            backend, release="b", lanes=world.ports.lanes, adoption=AdoptionPolicy.ALL
        )
        await nursery.start(worker.serve, stop)
        await settled(290)
        early = list(backend.executed)
        await world.until_ended("r1")
        stop.request()

    assert early == ["own"]


async def test_a_lane_is_given_back_to_its_own_workers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """When one is back, the adopter lets go; what it has in hand of the lane it finishes."""
    world, stop, back = SmallWorld(), Stop(), Stop()

    async def slowly(launch: Launch, _: Attempt, __: Claim) -> RunnerResult:
        await trio.sleep(70)
        return Completed(output=launch.run_id)

    backend = InProcessBackend(play=slowly)
    await world.submit("r1", release="a")
    await world.submit("own", release="b")
    await world.ports.lanes.hand_over(OLD)
    async with trio.open_nursery() as nursery:
        adopter = world.worker(backend, release="b", lanes=world.ports.lanes, name="w2")
        await nursery.start(adopter.serve, stop)
        await settled(40)
        assert sorted(backend.executed) == ["own", "r1"]
        assert adopter.running == 2
        others = InProcessBackend()
        owner = world.worker(others, release="a", lanes=world.ports.lanes)
        await nursery.start(owner.serve, back)
        await settled(40)
        assert [e.fields["queue"] for e in world.telemetry.named("adoption_detached")] == [OLD]
        await world.submit("r2", release="a")
        await world.until_ended("r1", "r2")
        stop.request()
        back.request()

    assert others.executed == ["r2"]
    assert (await world.run("r1")).attempt == 1


async def test_stopping_drains_adopted_lanes_too(autojump_clock: trio.testing.MockClock) -> None:
    """All adopted lanes are closed at the end, with what was in hand settled (I48)."""
    world, stop = SmallWorld(), Stop()

    async def slowly(launch: Launch, _: Attempt, __: Claim) -> RunnerResult:
        await trio.sleep(5)
        return Completed(output=launch.run_id)

    backend = InProcessBackend(play=slowly)
    for release in "acdefghijk":
        await world.submit(release, release=release)
        await world.ports.lanes.drain(lane_of_release(ReleaseId(release)), draining=True)
    await world.submit("own", release="b")
    async with trio.open_nursery() as nursery:
        worker = world.worker(backend, release="b", lanes=world.ports.lanes)
        await nursery.start(worker.serve, stop)
        await trio.sleep(3)
        in_hand = worker.running
        stop.request()

    states = {state.lane: state for state in await world.ports.lanes.all()}
    assert in_hand == world.limits.adopted_lanes + 1
    assert sum(state.open_tasks for state in states.values()) == 2
    assert not any(state.workers for state in states.values())


@attrs.define(eq=False)
class PassedOnLanes:
    """A registry that passes everything on."""

    inner: Lanes

    async def all(self) -> Sequence[LaneState]:
        """Every lane."""
        return await self._there().all()

    async def read(self, lane: Lane) -> LaneState | None:
        """One lane."""
        return await self._there().read(lane)

    async def beat(self, beat: LaneBeat) -> None:
        """Remember."""
        await self._there().beat(beat)

    async def left(self, worker: str) -> None:
        """Forget."""
        await self._there().left(worker)

    async def drain(self, lane: Lane, *, draining: bool) -> bool:
        """Mark."""
        return await self._there().drain(lane, draining=draining)

    async def hand_over(self, lane: Lane) -> bool:
        """Mark."""
        return await self._there().hand_over(lane)

    async def prune(self, lane: Lane, *, lost_after: timedelta) -> bool:
        """Remove."""
        return await self._there().prune(lane, lost_after=lost_after)

    def _there(self) -> Lanes:
        return self.inner


@attrs.define(eq=False)
class ScriptedLanes(PassedOnLanes):
    """A registry whose reading of all lanes does what the test says, and hangs where that is so."""

    look: Callable[[], object]

    async def all(self) -> Sequence[LaneState]:
        """Look as told."""
        if self.look() is trio:
            await trio.sleep_forever()
        return await self.inner.all()


@attrs.define(eq=False)
class AwayLanes(PassedOnLanes):
    """A registry that does not answer until some time."""

    until: float

    def _there(self) -> Lanes:
        if trio.current_time() < self.until:
            raise Unavailable("away")
        return self.inner


def adoption_of(world: SmallWorld, look: Callable[[], object]) -> LaneAdoption:
    """An adoption over a scripted registry; any lane that it attached would be an error."""

    def refuse(lane: Lane, org_limit: int) -> LaneService:
        raise AssertionError(f"{lane} is attached")

    return LaneAdoption(
        lanes=ScriptedLanes(world.ports.lanes, look),
        telemetry=world.telemetry,
        limits=world.limits,
        settings=adoption_settings(AdoptionPolicy.BEGUN, world.limits),
        own=NEW,
        release_id=ReleaseId("b"),
        org_limit=10,
        make=refuse,
        on_attached=lambda _: None,
    )


async def test_a_stop_interrupts_adoption_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """Before a pass, in a look, after it, and in the pause: nothing is attached any more."""
    world = SmallWorld()
    await world.submit("r1", release="a")

    stopped = Stop()
    stopped.request()
    await adoption_of(world, pytest.fail).run(stopped)

    for look_is in ("hangs", "answers"):
        stop = Stop()
        await world.ports.lanes.drain(OLD, draining=look_is == "answers")
        look = (lambda: trio) if look_is == "hangs" else stop.request
        async with trio.open_nursery() as nursery:
            nursery.start_soon(adoption_of(world, look).run, stop)
            await trio.testing.wait_all_tasks_blocked()
            stop.request()

    await world.ports.lanes.drain(OLD, draining=False)
    stop, began = Stop(), trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(adoption_of(world, lambda: None).run, stop)
        await trio.testing.wait_all_tasks_blocked()
        stop.request()
    assert trio.current_time() == began


async def test_a_pass_that_fails_is_followed_by_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A store that is away is said, and looked at again."""
    world, stop, looks = SmallWorld(), Stop(), iter([Unavailable("away")] * 2)

    def look() -> None:
        for error in looks:
            raise error
        stop.request()

    await adoption_of(world, look).run(stop)

    assert len(world.telemetry.named("adoption_failed")) == 2


async def test_a_worker_leaves_once_its_lane_is_empty(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """With drain exit it serves what its lane holds, to the last parked run, and ends (C57)."""
    async with trio.open_nursery() as nursery:
        world = SuspendingWorld(play=napping, nursery=nursery)
        await world.submit("r1", release="a")
        worker = world.worker(
            world.sandbox_worker().ports.backend,
            providers={"local": world.provider},
            release="a",
            lanes=world.ports.lanes,
            drain_exit=True,
        )
        ended = trio.Event()
        nursery.start_soon(_serve_until, worker, ended)
        await world.until_waiting_for("r1", "nap")
        await settled(600)
        assert not ended.is_set()
        [seen] = [one for state in await world.ports.lanes.all() for one in state.workers]
        await ended.wait()

    assert seen.leaving
    assert (await world.run("r1")).status is RunStatus.COMPLETED
    [drained] = world.telemetry.named("lane_drained")
    assert drained.fields["rule"] == "drain.empty"
    assert not world.telemetry.named("adoption_attached")


async def _serve_until(worker: Worker, ended: trio.Event) -> None:
    await worker.serve(Stop())
    ended.set()


async def test_drained_by_an_operator_a_worker_leaves_its_runs_to_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It stops adopting, waits until somebody adopted its lane, and ends; its parked run wakes."""
    async with trio.open_nursery() as nursery:
        world = SuspendingWorld(play=napping, nursery=nursery)
        lanes, ended, stop = world.ports.lanes, trio.Event(), Stop()
        await world.submit("r1", release="a")
        await world.submit("own", release="b")
        old = world.sandbox_worker(release="a", lanes=lanes)
        nursery.start_soon(_serve_until, old, ended)
        await world.until_waiting_for("r1", "nap")
        await lanes.drain(OLD, draining=True)
        await settled(300)
        assert not ended.is_set()
        await nursery.start(world.sandbox_worker("w2", release="b", lanes=lanes).serve, stop)
        with trio.fail_after(120):
            await ended.wait()
        await world.until_ended("r1", "own", every=timedelta(seconds=1))
        stop.request()

    [drained] = world.telemetry.named("lane_drained")
    assert drained.fields["rule"] == "drain.adopted"
    assert (await world.run("r1")).attempt == 1
    assert await world.terminal_facts("r1") == ["run.completed"]


async def test_a_stop_ends_the_watch_over_a_lane(autojump_clock: trio.testing.MockClock) -> None:
    """A worker that is to leave stops like any other, at once, with its lane not empty."""
    world, stop = SmallWorld(), Stop()
    await world.submit("r1", release="a")
    worker = world.worker(
        InProcessBackend(), release="a", lanes=world.ports.lanes, drain_exit=True, slots=1
    )
    worker.own.admit_up_to(0)
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.serve, stop)
        await settled()
        began = trio.current_time()
        stop.request()

    assert trio.current_time() == began
    assert not world.telemetry.named("lane_drained")


async def test_a_store_that_is_away_lets_no_worker_leave(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What cannot be read is not empty; beats go on when the store is back."""
    world, ended = SmallWorld(), trio.Event()
    await world.ports.admission.ensure_lane(OLD, "a")
    away = AwayLanes(world.ports.lanes, until=trio.current_time() + 300)
    worker = world.worker(InProcessBackend(), release="a", lanes=away, drain_exit=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_serve_until, worker, ended)
        await settled(290)
        assert not ended.is_set()
        assert world.telemetry.named("drain_poll_failed")
        assert world.telemetry.named("lane_beat_failed")
        with trio.fail_after(60):
            await ended.wait()


@pytest.mark.parametrize(
    ("drain_exit", "adoption", "adopts"),
    [
        pytest.param(False, AdoptionPolicy.BEGUN, True, id="C03-stays"),
        pytest.param(False, AdoptionPolicy.OFF, False, id="C03-stays-adoption-off"),
        pytest.param(True, AdoptionPolicy.ALL, False, id="C03-leaves"),
    ],
)
async def test_a_worker_says_how_it_hosts(
    drain_exit: bool,
    adoption: AdoptionPolicy,
    adopts: bool,
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its start names its release, whether it leaves, adopts, and looks after ceilings (C03)."""
    world, stop = SmallWorld(), Stop()
    await world.submit("r1", release="a")
    worker = world.worker(
        InProcessBackend(),
        release="a",
        lanes=world.ports.lanes,
        adoption=adoption,
        drain_exit=drain_exit,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.serve, stop)
        await trio.sleep(1)
        [[served]] = [state.workers for state in await world.ports.lanes.all()]
        stop.request()

    [started] = world.telemetry.named("worker_started")
    assert started.fields == {
        "workerName": "w1",
        "releaseId": "a",
        "lane": OLD,
        "drainExit": drain_exit,
        "laneAdoption": adopts,
        "overdueDetachedRunnerRecovery": False,
    }
    assert (served.worker, served.adopted, served.leaving) == ("w1", False, drain_exit)
    assert not (await world.ports.lanes.all())[0].workers


def test_leaving_needs_the_registry() -> None:
    """A worker cannot know that its lane is empty without it."""
    with pytest.raises(BadConfiguration, match="lanes port"):
        SmallWorld().worker(InProcessBackend(), drain_exit=True)


async def test_a_beat_of_the_own_lane_stands_beside_the_adopted_ones() -> None:
    """Whoever reads the registry sees which lanes a worker serves, and as what."""
    world = SmallWorld()
    await world.submit("r1", release="a")
    served = (ServedLane(NEW), ServedLane(OLD, adopted=True))
    await world.ports.lanes.beat(LaneBeat(worker="w", release_id=ReleaseId("b"), served=served))

    state = await world.ports.lanes.read(OLD)
    assert state is not None
    assert [(one.release_id, one.adopted) for one in state.workers] == [("b", True)]


async def test_stranded_runs_are_told_once(autojump_clock: trio.testing.MockClock) -> None:
    """No run waits for an absent release in silence; when somebody comes, that is told (F53)."""
    world, stop = SmallWorld(), Stop()
    await world.submit("r1", "r2", release="a")
    lanes = AwayLanes(world.ports.lanes, until=trio.current_time() + 10)
    watch = LaneWatch(lanes=lanes, telemetry=world.telemetry, limits=world.limits)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run, stop)
        await settled(200)
        stranded = world.telemetry.named("lane_stranded")
        served = (ServedLane(NEW), ServedLane(OLD, adopted=True))
        await world.ports.lanes.beat(LaneBeat(worker="w", release_id=None, served=served))
        await settled(31)
        stop.request()

    assert [(event.fields["lane"], event.fields["runs"]) for event in stranded] == [(OLD, 2)]
    assert len(world.telemetry.named("lane_watch_failed")) == 1
    assert len(world.telemetry.named("lane_not_stranded")) == 1
    assert watch.stranded == {"a": 0}
