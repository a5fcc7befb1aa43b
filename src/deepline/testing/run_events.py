"""What every `RunEvents` keeps (C26, I21)."""

from collections.abc import Sequence

import attrs
import trio

from deepline.core.model.identity import RunId
from deepline.core.model.ledger import Fact
from deepline.ports.errors import FenceLost
from deepline.ports.run_events import LiveEvent
from deepline.testing.refusals import refused
from deepline.testing.scene import LEASE, Scene
from deepline.testing.stores import Stores

RUN = RunId("run-1")


def live(*names: str) -> Sequence[LiveEvent]:
    """Events as a runner reports them."""
    return [LiveEvent(event_id=name, kind="log", payload={"line": name}) for name in names]


class RunEventsContract:
    """Asks for `stores`."""

    async def test_facts_are_applied_once(self, stores: Stores) -> None:
        """A fact delivered again changes nothing, whatever it says now (I21)."""
        scene = await Scene.on(stores)
        fact = await self._created(scene)
        again = attrs.evolve(fact, payload={"changed": True})

        await stores.run_events.apply([fact])
        await stores.run_events.apply([fact, again])

        (event,) = await stores.run_events.read(RUN, after=0, limit=10)
        assert (event.event_id, event.kind, event.payload) == (
            fact.event_id,
            fact.kind,
            fact.payload,
        )

    async def test_events_are_read_by_cursor(self, stores: Stores) -> None:
        """A reading resumes after the last cursor it saw and misses nothing."""
        scene = await Scene.on(stores)
        held = await scene.started()
        assert await stores.run_events.append(held.key, live("a", "b", "c")) == 3

        first = await stores.run_events.read(RUN, after=0, limit=2)
        second = await stores.run_events.read(RUN, after=first[-1].cursor, limit=10)

        assert [event.event_id for event in (*first, *second)] == ["a", "b", "c"]
        cursors = [event.cursor for event in (*first, *second)]
        assert cursors == sorted(set(cursors))
        assert not await stores.run_events.read(RUN, after=cursors[-1], limit=10)

    async def test_live_events_are_appended_once(self, stores: Stores) -> None:
        """Events reported again, or twice in one report, count as new once."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.run_events.append(held.key, live("a"))

        assert await stores.run_events.append(held.key, live("a", "b", "b")) == 1

        events = await stores.run_events.read(RUN, after=0, limit=10)
        assert [event.event_id for event in events] == ["a", "b"]

    async def test_only_a_live_attempt_reports(self, stores: Stores) -> None:
        """A runner whose attempt is over reports nothing."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await scene.commit(held)

        await refused(stores.run_events.append(held.key, live("late")), FenceLost)

        assert not await stores.run_events.read(RUN, after=0, limit=10)

    async def test_writers_race(self, stores: Stores) -> None:
        """Cursors of events that are written at once differ and leave none out."""
        scene = await Scene.on(stores)
        held = await scene.started()
        names = [f"event-{number}" for number in range(6)]

        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(stores.run_events.append, held.key, live(name))

        events = await stores.run_events.read(RUN, after=0, limit=10)
        assert sorted(event.event_id for event in events) == names
        assert len({event.cursor for event in events}) == 6

    async def _created(self, scene: Scene) -> Fact:
        await scene.submit(acknowledged=False)
        lease = await scene.stores.outbox.lease_run(RUN, "reader", lease=LEASE, facts_per_run=1)
        assert lease is not None
        return lease.facts[0]
