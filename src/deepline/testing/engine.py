"""What every `Engine` keeps (ENGINE 2, L12)."""

from datetime import timedelta

import attrs
import trio

from deepline.core.model.claim import Fresh
from deepline.core.model.identity import Lane, RunId
from deepline.ports.engine import Wakeups
from deepline.ports.signals import Signal
from deepline.testing.scene import LANE, LATER, LEASE, RELEASE, WHY, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")
NOW = timedelta(0)
APPROVED = Signal(event_key="approved", boundary_id=None, payload={})


@attrs.define(eq=False)
class Heard:
    """Hints as they came, as `name:subject`."""

    hints: list[str] = attrs.field(factory=list)
    news: trio.Event = attrs.field(factory=trio.Event)

    def wakeups(self) -> Wakeups:
        """Where the hints go."""
        return Wakeups(
            lane_woken=lambda lane: self._add(f"lane_woken:{lane}"),
            run_cancelled=lambda run_id: self._add(f"run_cancelled:{run_id}"),
            run_ended=lambda run_id: self._add(f"run_ended:{run_id}"),
            rescan=lambda: self._add("rescan"),
        )

    def _add(self, hint: str) -> None:
        self.hints.append(hint)
        self.news.set()

    async def until(self, hint: str) -> None:
        """Wait until the hint has come."""
        with trio.fail_after(10):
            while hint not in self.hints:
                self.news = trio.Event()
                await self.news.wait()


class EngineContract:
    """Asks for `stores`."""

    async def test_an_extended_claim_is_kept(self, stores: Stores) -> None:
        """Extending gives a claim another whole lease."""
        scene = await Scene.on(stores)
        held = await scene.started()

        for _ in range(3):
            await stores.advance(LEASE - timedelta(seconds=10))
            assert not await stores.engine.extend([held.claim], LEASE)
            assert await scene.claim() == []

        assert await stores.attempts.is_live(held.ref)

    async def test_lost_claims_are_named(self, stores: Stores) -> None:
        """Extending many claims at once answers exactly those which are lost."""
        scene = await Scene.on(stores)
        kept = await scene.started("run-kept")
        given_back = await scene.started("run-back")
        assert await stores.attempts.defer(given_back.claim, LATER, WHY)
        stranger = attrs.evolve(kept.claim, owner="nobody")

        lost = await stores.engine.extend([kept.claim, given_back.claim, stranger], LEASE)

        assert list(lost) == [given_back.claim, stranger]

    async def test_an_idle_lane_has_nothing_due(self, stores: Stores) -> None:
        """Nothing planned is told apart from something due."""
        await Scene.on(stores)

        assert await stores.engine.next_due(LANE) is None

    async def test_work_that_may_be_admitted_is_due_now(self, stores: Stores) -> None:
        """A run that an admission could let through counts as due."""
        scene = await Scene.on(stores)
        await scene.submit()

        assert await stores.engine.next_due(LANE) == NOW

    async def test_work_held_back_by_a_limit_is_not_due(self, stores: Stores) -> None:
        """A run that its organisation's limit holds back does not make its worker spin."""
        scene = await Scene.on(stores)
        await scene.submit("run-1")
        await scene.submit("run-2")
        assert len(await scene.claim(org_limit=1)) == 1
        assert await scene.claim(org_limit=1) == []

        due = await stores.engine.next_due(LANE)

        assert due is not None
        assert timedelta(seconds=30) < due <= LEASE

    async def test_the_next_due_time_is_told(self, stores: Stores) -> None:
        """Deferred work is due after its delay, a claim when its lease ends, never negative."""
        scene = await Scene.on(stores)
        held = await scene.started()
        leased = await stores.engine.next_due(LANE)
        assert leased is not None
        assert timedelta(seconds=30) < leased <= LEASE

        assert await stores.attempts.defer(held.claim, LATER, WHY)
        deferred = await stores.engine.next_due(LANE)
        assert deferred is not None
        assert LEASE < deferred <= LATER

        await stores.advance(2 * LATER)
        assert await stores.engine.next_due(LANE) == NOW

    async def test_a_failed_attempt_is_spent(self, stores: Stores) -> None:
        """Failing spends the engine attempt; the next one follows after a pause."""
        scene = await Scene.on(stores)
        held = await scene.started()

        assert await stores.engine.fail(held.claim, "it broke")

        assert await scene.claim() == []
        assert not await stores.engine.fail(held.claim, "it broke")
        await stores.advance(timedelta(seconds=3))
        (prepared,) = await scene.claim()
        assert expect(prepared, Fresh).claim.engine_attempt == 2

    async def test_pauses_grow(self, stores: Stores) -> None:
        """Each pause is longer than the one before, up to a bound (Q02)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        pauses: list[timedelta] = []
        for _ in range(3):
            assert await stores.engine.fail(held.claim, "it broke")
            due = await stores.engine.next_due(LANE)
            assert due is not None
            pauses.append(due)
            await stores.advance(due + timedelta(seconds=1))
            held = await scene.fresh()

        assert pauses[0] < pauses[1] < pauses[2] <= timedelta(seconds=60)

    async def test_a_completed_task_is_over(self, stores: Stores) -> None:
        """Completing ends the task once, by its holder only."""
        scene = await Scene.on(stores)
        held = await scene.started()
        stranger = attrs.evolve(held.claim, owner="nobody")

        assert not await stores.engine.complete(stranger)
        assert await stores.engine.complete(held.claim)
        assert not await stores.engine.complete(held.claim)

        assert await stores.engine.next_due(LANE) is None

    async def test_hints_follow_commits(self, stores: Stores) -> None:
        """A listener looks for itself once, then hears of work, cancels and ends."""
        scene = await Scene.on(stores)
        heard = Heard()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stores.engine.listen, heard.wakeups())
            await heard.until("rescan")
            await scene.submit()
            await heard.until(f"lane_woken:{LANE}")
            assert len(await scene.claim()) == 1
            await stores.terminals.cancel(RUN, by="someone", reason="enough", why=WHY)
            await heard.until(f"run_cancelled:{RUN}")
            await heard.until(f"run_ended:{RUN}")
            nursery.cancel_scope.cancel()

        assert heard.hints[0] == "rescan"

    async def test_a_parked_run_is_announced_when_it_wakes(self, stores: Stores) -> None:
        """What makes a sleeping run due says so on its lane."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await scene.park(held, scene.awaiting(held))
        heard = Heard()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stores.engine.listen, heard.wakeups())
            await heard.until("rescan")
            await stores.signals.put(RUN, APPROVED, signal_id=None)
            await heard.until(f"lane_woken:{LANE}")
            nursery.cancel_scope.cancel()

    async def test_an_unknown_lane_has_nothing_due(self, stores: Stores) -> None:
        """Asking about a lane that was never made ready is no error."""
        await stores.admission.ensure_lane(LANE, RELEASE)

        assert await stores.engine.next_due(Lane("contract_unknown")) is None
