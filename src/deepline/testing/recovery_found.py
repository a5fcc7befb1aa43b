"""What every `Recovery` finds of attempts: unsettled terminals, runners past their ceiling."""

from datetime import timedelta

import attrs
import trio

from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.claim import Wake
from deepline.core.model.heartbeat import NoFence
from deepline.core.model.identity import Lane, LeaseToken, RunId
from deepline.core.model.result import Completed, Failed
from deepline.core.model.run import RunStatus
from deepline.ports.recovery import OverdueAttempt, Place, UnsettledTerminal
from deepline.ports.terminals import Committed, NotCommitted, TerminalCommit
from deepline.testing.scene import LANE, LEASE, WHY, Held, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")
GRACE = timedelta(seconds=30)
DONE = Completed(output=1)
LATE = Failed(error="RUNTIME_LIMIT_EXCEEDED: late")


class FoundRecoveryContract:
    """Asks for `stores`."""

    async def test_a_pushed_terminal_is_unsettled(self, stores: Stores) -> None:
        """A stored terminal of an open run is found once it is old enough, on its lane (C35)."""
        scene = await Scene.on(stores)
        held = await scene.parked()
        assert await self._unsettled(scene) == []
        await stores.terminals.offer(held.key, DONE, NoFence(), WHY)

        assert await self._unsettled(scene, older_than=GRACE) == []
        await stores.advance(GRACE + timedelta(seconds=1))

        for lane in (None, LANE):
            (found,) = await self._unsettled(scene, lane=lane, older_than=GRACE)
            assert (found.ref, found.lane) == (held.ref, LANE)
        assert await self._unsettled(scene, lane=Lane("elsewhere")) == []

    async def test_what_is_over_is_settled(self, stores: Stores) -> None:
        """A run that ended is not found again, whoever ended it (I01)."""
        scene = await Scene.on(stores)
        settled, cancelled = await scene.parked("run-1"), await scene.parked("run-2")
        for held in (settled, cancelled):
            await stores.terminals.offer(held.key, DONE, NoFence(), WHY)
        assert len(await self._unsettled(scene)) == 2

        expect(await self._end(scene, settled), Committed)
        await stores.terminals.cancel(cancelled.ref.run_id, by="me", reason="enough", why=WHY)

        assert await self._unsettled(scene) == []
        expect(await self._end(scene, settled), NotCommitted)

    async def test_unsettled_terminals_come_in_pages(self, stores: Stores) -> None:
        """Pages follow each other, oldest first, without a gap or a repetition."""
        scene = await Scene.on(stores)
        runs = [f"run-{number}" for number in range(5)]
        parked = [await scene.parked(run) for run in runs]
        for held in parked:
            await stores.terminals.offer(held.key, DONE, NoFence(), WHY)

        seen: list[str] = []
        after: Place | None = None
        while page := await self._unsettled(scene, after=after, limit=2):
            assert len(page) <= 2
            seen.extend(found.ref.run_id for found in page)
            after = page[-1].place

        assert seen == runs

    async def test_a_runner_past_its_ceiling_is_overdue(self, stores: Stores) -> None:
        """A waiting attempt is overdue from its ceiling on, fresh heart or not (C37.1, I09)."""
        scene = await Scene.on(stores)
        await scene.parked("run-in-time")
        late = await self._late(scene, "run-late")
        await stores.liveness.beat(late.key)

        (found,) = await self._overdue(scene)

        assert (found.ref, found.lane) == (late.ref, LANE)
        assert found.ceiling_at < late.claim.claimed_at

    async def test_only_detached_runners_are_overdue(self, stores: Stores) -> None:
        """A play that sleeps has no runner and no ceiling, however long it sleeps."""
        scene = await Scene.on(stores)
        held = await scene.started()
        asleep = attrs.evolve(scene.asleep(held), wake_at=held.claim.claimed_at - GRACE)
        await scene.park(held, asleep)

        assert await self._overdue(scene) == []
        assert list(await stores.recovery.unreadable(limit=10)) == []

    async def test_overdue_attempts_come_in_pages(self, stores: Stores) -> None:
        """Pages follow each other, the longest first, without a gap or a repetition."""
        scene = await Scene.on(stores)
        for number in range(5):
            await self._late(scene, f"run-{number}", by=timedelta(hours=9 - number))

        seen: list[str] = []
        after: Place | None = None
        while page := await self._overdue(scene, after=after, limit=2):
            seen.extend(found.ref.run_id for found in page)
            after = page[-1].place

        assert seen == [f"run-{number}" for number in range(5)]

    async def test_a_claimed_attempt_is_no_candidate(self, stores: Stores) -> None:
        """Claiming takes it out of the list under its own fence, and it can be ended (Q20)."""
        scene = await Scene.on(stores)
        late = await self._late(scene)

        assert await self._claim(scene, late)

        assert await self._overdue(scene) == []
        assert not await self._claim(scene, late)
        attempt = await stores.attempts.read(late.key)
        assert attempt is not None
        assert (attempt.ref, attempt.status) == (late.ref, AttemptStatus.RUNNING)
        assert await stores.terminals.status(RUN) is RunStatus.RUNNING
        committed = expect(await self._end(scene, late), Committed)
        assert committed.result == LATE

    async def test_a_claim_left_behind_is_taken_again(self, stores: Stores) -> None:
        """Who claims and dies loses it: after a lease the attempt is a candidate again."""
        scene = await Scene.on(stores)
        late = await self._late(scene)
        assert await self._claim(scene, late)

        await stores.advance(LEASE + timedelta(seconds=1))

        assert [found.ref for found in await self._overdue(scene)] == [late.ref]
        assert await self._claim(scene, late)
        assert not await self._claim(scene, late)

    async def test_only_what_is_overdue_is_claimed(self, stores: Stores) -> None:
        """In time, ended, or under another lease: nothing is claimed."""
        scene = await Scene.on(stores)
        in_time = await scene.parked("run-in-time")
        late = await self._late(scene, "run-late")
        stranger = attrs.evolve(late, ref=attrs.evolve(late.ref, lease_token=LeaseToken("guessed")))
        ended = await self._late(scene, "run-ended")
        await stores.terminals.cancel(ended.ref.run_id, by="me", reason="enough", why=WHY)

        for held in (in_time, stranger, ended):
            assert not await self._claim(scene, held)
        assert len(await self._overdue(scene)) == 1

    async def test_claims_race(self, stores: Stores) -> None:
        """Of controllers that race for an overdue attempt one claims it (I01)."""
        scene = await Scene.on(stores)
        late = await self._late(scene)
        claimed: list[bool] = []

        async def claim() -> None:
            claimed.append(await self._claim(scene, late))

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(claim)

        assert claimed.count(True) == 1

    async def test_the_runners_own_terminal_still_wins(self, stores: Stores) -> None:
        """A terminal pushed after the claim and before the commit is what is committed (I03)."""
        scene = await Scene.on(stores)
        late = await self._late(scene)
        assert await self._claim(scene, late)
        await stores.terminals.offer(late.key, DONE, NoFence(), WHY)

        committed = expect(await self._end(scene, late), Committed)

        assert committed.result == DONE

    async def test_the_engine_claim_takes_over(self, stores: Stores) -> None:
        """A wake of the run takes the attempt from the claim, whose fence is then lost (I04)."""
        scene = await Scene.on(stores)
        late = await self._late(scene)
        assert await self._claim(scene, late)
        await stores.advance(timedelta(hours=2))

        (prepared,) = await scene.claim()

        wake = expect(prepared, Wake)
        assert wake.adopted
        assert wake.attempt.ref.lease_token != late.ref.lease_token
        expect(await self._end(scene, late), NotCommitted)

    async def _late(
        self, scene: Scene, run: str = "run-1", *, by: timedelta = timedelta(hours=2)
    ) -> Held:
        """Park a run whose runner was started `by` before now, with an hour to go then."""
        held = await scene.bound(await scene.started(run))
        detached = scene.detached(held)
        late = attrs.evolve(detached, started_at=detached.started_at - by)
        await scene.park(held, late, until=held.claim.claimed_at + timedelta(hours=1))
        return held

    async def _claim(self, scene: Scene, held: Held) -> bool:
        return await scene.stores.recovery.claim_overdue(
            held.ref, owner=scene.owner("controller"), lease=LEASE
        )

    async def _end(self, scene: Scene, held: Held) -> object:
        return await scene.stores.terminals.commit(
            TerminalCommit(
                ref=held.ref,
                claim=None,
                result=LATE,
                why=WHY,
                from_waiting=True,
                preserve_runner_terminal=True,
            )
        )

    async def _unsettled(
        self,
        scene: Scene,
        *,
        lane: Lane | None = None,
        older_than: timedelta = timedelta(0),
        after: Place | None = None,
        limit: int = 10,
    ) -> list[UnsettledTerminal]:
        return list(
            await scene.stores.recovery.unsettled(
                lane=lane, older_than=older_than, after=after, limit=limit
            )
        )

    async def _overdue(
        self, scene: Scene, *, after: Place | None = None, limit: int = 10
    ) -> list[OverdueAttempt]:
        return list(await scene.stores.recovery.overdue(lease=LEASE, after=after, limit=limit))
