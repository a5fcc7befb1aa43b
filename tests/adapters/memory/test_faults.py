"""What a fault does to an operation: nothing of it, or all of it, and never a part (TRIO 4.4)."""

import attrs
import pytest
import trio

from deepline.adapters.memory import MemoryPorts, NoFaults, World, open_ports
from deepline.core.model.identity import Lane, RunId
from deepline.core.model.run import RunStatus
from deepline.core.model.why import Why
from deepline.ports.engine import Wakeups
from deepline.ports.errors import OutcomeUnknown, Refused, Unavailable
from deepline.ports.signals import Signal
from deepline.testing import Scene, Stores
from deepline.testing.scene import LANE
from tests.contracts.memory_stores import memory_stores

RUN = RunId("run-1")
WHY = Why("test")


@attrs.define
class Adversary(NoFaults):
    """Strikes at the named operation, once."""

    lost_request: str = ""
    lost_reply: str = ""
    deaf: bool = False
    seen: list[str] = attrs.field(factory=list)

    async def before(self, operation: str) -> None:
        self.seen.append(operation)
        if operation == self.lost_request:
            self.lost_request = ""
            raise Unavailable("the request was lost")

    async def after(self, operation: str) -> None:
        if operation == self.lost_reply:
            self.lost_reply = ""
            raise OutcomeUnknown("the reply was lost")

    def delivers(self, hint: str) -> bool:
        return not self.deaf


def process(stores: Stores, adversary: Adversary) -> MemoryPorts:
    """Another process on the same world, with its own faults."""
    admission = stores.admission
    assert hasattr(admission, "world")
    return open_ports(admission.world, adversary)


async def test_a_lost_request_changes_nothing() -> None:
    """What never arrived was never done, and may be asked again."""
    stores = memory_stores()
    await (await Scene.on(stores)).submit()
    adversary = Adversary(lost_request="terminals.cancel")
    ports = process(stores, adversary)

    with pytest.raises(Unavailable):
        await ports.terminals.cancel(RUN, by="me", reason="enough", why=WHY)

    assert await stores.terminals.status(RUN) is RunStatus.QUEUED
    await ports.terminals.cancel(RUN, by="me", reason="enough", why=WHY)
    assert await stores.terminals.status(RUN) is RunStatus.CANCELLED


async def test_a_lost_reply_leaves_everything_done() -> None:
    """What was done stays done though its caller cannot know."""
    stores = memory_stores()
    scene = await Scene.on(stores)
    await scene.submit()
    ports = process(stores, Adversary(lost_reply="terminals.cancel"))

    with pytest.raises(OutcomeUnknown):
        await ports.terminals.cancel(RUN, by="me", reason="enough", why=WHY)

    assert await stores.terminals.status(RUN) is RunStatus.CANCELLED
    assert [kind for _, _, kind in await scene.facts()] == ["run.created", "run.cancelled"]


async def test_faults_are_of_one_process() -> None:
    """A process whose line is cut does not cut the others'."""
    stores = memory_stores()
    await (await Scene.on(stores)).submit()
    ports = process(stores, Adversary(lost_request="terminals.status"))

    assert await stores.terminals.status(RUN) is RunStatus.QUEUED
    with pytest.raises(Unavailable):
        await ports.terminals.status(RUN)


async def test_operations_are_named() -> None:
    """An adversary sees each operation under the name of its port and method."""
    stores = memory_stores()
    adversary = Adversary()
    scene = await Scene.on(attrs.evolve(stores, attempts=process(stores, adversary).attempts))
    held = await scene.started()
    await scene.stores.attempts.is_live(held.ref)

    assert adversary.seen == ["attempts.claim", "attempts.is_live"]


async def test_a_cancelled_operation_did_not_happen() -> None:
    """A caller that is cancelled before its step leaves no trace."""
    stores = memory_stores()
    await (await Scene.on(stores)).submit()

    with trio.CancelScope() as scope:
        scope.cancel()
        await stores.terminals.cancel(RUN, by="me", reason="enough", why=WHY)

    assert scope.cancelled_caught
    assert await stores.terminals.status(RUN) is RunStatus.QUEUED


async def test_a_refused_step_gives_no_hint_and_no_step() -> None:
    """A step that raises delivers nothing and is not shown to the watch."""
    stores = memory_stores()
    scene = await Scene.on(stores)
    await scene.commit(await scene.started())
    world = stores.admission.world  # type: ignore[attr-defined]
    steps: list[str] = []
    world.watch = steps.append

    with pytest.raises(Refused):
        await stores.signals.put(
            RUN, Signal(event_key="e", boundary_id=None, payload={}), signal_id=None
        )
    await stores.terminals.status(RUN)

    assert steps == ["terminals.status"]


async def test_hints_may_be_lost() -> None:
    """A deaf process hears nothing but its own first look; another one hears all."""
    stores = memory_stores()
    scene = await Scene.on(stores)
    heard: list[str] = []
    lost: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stores.engine.listen, wakeups(heard))
        deaf = process(stores, Adversary(deaf=True))
        nursery.start_soon(deaf.engine.listen, wakeups(lost))
        await trio.testing.wait_all_tasks_blocked()
        await scene.submit()
        nursery.cancel_scope.cancel()

    assert heard[0] == "rescan"
    assert LANE in heard
    assert lost == ["rescan"]


async def test_a_restart_loses_every_line() -> None:
    """Whoever listens learns that the line is lost and may listen again."""
    world = World()
    engine = open_ports(world).engine
    heard: list[str] = []

    async def listen() -> None:
        with pytest.raises(Unavailable):
            await engine.listen(wakeups(heard))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await trio.testing.wait_all_tasks_blocked()
        world.drop_listeners()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(engine.listen, wakeups(heard))
        await trio.testing.wait_all_tasks_blocked()
        await open_ports(world).admission.ensure_lane(Lane("runs"), None)
        nursery.cancel_scope.cancel()

    assert heard == ["rescan", "rescan"]


def wakeups(heard: list[str]) -> Wakeups:
    """Hints by their subject."""
    return Wakeups(
        lane_woken=heard.append,
        run_cancelled=heard.append,
        run_ended=heard.append,
        rescan=lambda: heard.append("rescan"),
    )
