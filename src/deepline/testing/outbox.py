"""What every `Outbox` keeps (C25, C26, I20, I21, I22, Q34)."""

from datetime import timedelta

import trio

from deepline.core.model.claim import Fresh
from deepline.core.model.identity import RunId
from deepline.core.model.ledger import SettledProgress, terminal_event_id
from deepline.core.model.result import Failed
from deepline.ports.outbox import OutboxLease
from deepline.ports.terminals import Committed, TerminalCommit
from deepline.testing.scene import LATER, WHY, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")
LEASE = timedelta(seconds=30)
FAILED = Failed(error="PLAY_FAILED: it broke")


class OutboxContract:
    """Asks for `stores`."""

    async def test_a_lease_brings_the_facts_in_order(self, stores: Stores) -> None:
        """A lease holds the run's due facts in order, and the launch they go to (I21)."""
        scene = await Scene.on(stores)
        await self._ended(scene)

        lease = await self._lease(scene)

        assert lease.run_id == RUN
        assert lease.launch == scene.submission().launch
        assert [(fact.seq, fact.event_id) for fact in lease.facts] == [
            (2, "settled-1"),
            (3, "settled-2"),
            (4, terminal_event_id(RUN)),
        ]
        assert lease.attempts == 0

    async def test_one_dispatcher_a_run(self, stores: Stores) -> None:
        """While a lease holds nobody else gets the run; when it ends anybody may (I22)."""
        scene = await Scene.on(stores)
        await self._ended(scene)
        first = await self._lease(scene)

        assert await self._try(scene) is None
        assert await self._due(scene) == []
        await stores.advance(LEASE + timedelta(seconds=1))
        second = await self._lease(scene)

        assert not await stores.outbox.delivered(first, through_seq=4)
        assert not await stores.outbox.failed(first, error="x", delay=LATER, dead=False)
        assert await stores.outbox.delivered(second, through_seq=4)

    async def test_dispatchers_race(self, stores: Stores) -> None:
        """Of dispatchers that race one gets the run (I22)."""
        scene = await Scene.on(stores)
        await self._ended(scene)
        got: list[OutboxLease] = []

        async def lease() -> None:
            got.extend(await self._due(scene))

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(lease)

        assert len(got) == 1

    async def test_delivered_facts_are_gone(self, stores: Stores) -> None:
        """What was delivered does not come again, and the rest comes next."""
        scene = await Scene.on(stores)
        await self._ended(scene)

        assert await stores.outbox.delivered(await self._lease(scene), through_seq=3)

        rest = await self._lease(scene)
        assert [fact.seq for fact in rest.facts] == [4]
        assert await stores.outbox.delivered(rest, through_seq=4)
        assert await self._try(scene) is None

    async def test_a_lease_is_given_back_once(self, stores: Stores) -> None:
        """After its answer a lease is over."""
        scene = await Scene.on(stores)
        await self._ended(scene)
        lease = await self._lease(scene)
        assert await stores.outbox.delivered(lease, through_seq=2)

        assert not await stores.outbox.delivered(lease, through_seq=4)

    async def test_a_delayed_fact_blocks_those_behind_it(self, stores: Stores) -> None:
        """A failed delivery puts the first fact off, and nothing overtakes it (C26.2)."""
        scene = await Scene.on(stores)
        await self._ended(scene)
        lease = await self._lease(scene)

        assert await stores.outbox.failed(lease, error="down", delay=LATER, dead=False)

        assert await self._try(scene) is None
        assert await self._due(scene) == []
        await stores.advance(LATER + timedelta(seconds=1))
        again = await self._lease(scene)
        assert [fact.seq for fact in again.facts] == [2, 3, 4]
        assert again.attempts == 1

    async def test_a_dead_letter_blocks_those_behind_it(self, stores: Stores) -> None:
        """A fact that nobody takes stays visible, and nothing overtakes it (C26.2, I21)."""
        scene = await Scene.on(stores)
        await self._ended(scene)

        lease = await self._lease(scene)
        assert await stores.outbox.failed(lease, error="refused", delay=LATER, dead=True)

        await stores.advance(LATER + timedelta(seconds=1))
        assert await self._try(scene) is None
        assert await self._due(scene) == []
        evidence = await stores.runs.evidence(RUN, None)
        assert evidence is not None
        (dead,) = [fact for fact in evidence.facts if fact.dead_at is not None]
        assert (dead.seq, dead.attempts, dead.last_error) == (2, 1, "refused")

    async def test_the_oldest_runs_are_leased_first(self, stores: Stores) -> None:
        """A lease of many runs takes the oldest, up to its bounds."""
        scene = await Scene.on(stores)
        for number in range(3):
            await scene.submit(f"run-{number}", acknowledged=False)
            await stores.advance(timedelta(seconds=1))

        leases = await stores.outbox.lease_due(scene.owner(), runs=2, lease=LEASE, facts_per_run=1)

        assert [lease.run_id for lease in leases] == ["run-0", "run-1"]

    async def test_a_lease_is_bounded(self, stores: Stores) -> None:
        """No more facts of a run are leased than asked for."""
        scene = await Scene.on(stores)
        await self._ended(scene)

        lease = await stores.outbox.lease_run(RUN, "a", lease=LEASE, facts_per_run=2)

        assert lease is not None
        assert [fact.seq for fact in lease.facts] == [2, 3]

    async def test_the_created_fact_lets_the_run_start(self, stores: Stores) -> None:
        """Delivering the created fact acknowledges it and makes the run due at once (C26.7)."""
        scene = await Scene.on(stores)
        await scene.submit(acknowledged=False)
        (pending,) = await scene.claim()
        assert await stores.attempts.defer(pending.claim, LATER, WHY)
        lease = await self._lease(scene)

        assert await stores.outbox.delivered(lease, through_seq=1)

        found = await stores.runs.read(RUN, None)
        assert found is not None
        assert found.run.created_projected_at is not None
        (prepared,) = await scene.claim()
        expect(prepared, Fresh)

    async def test_the_terminal_fact_lets_go_of_receipts(self, stores: Stores) -> None:
        """Once a run's end is in the ledger it holds no receipt, though nobody let go (C28)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        for receipt in ("charge", "refund"):
            await stores.receipts.lease(held.key, receipt, "one")
        await stores.receipts.complete(held.key, "refund", "one", 1)
        await scene.commit(held)

        lease = await self._lease(scene)
        assert await stores.outbox.delivered(lease, through_seq=lease.facts[-1].seq)

        assert await stores.receipts.release(held.ref, reason="failed_terminal") == 0
        done = await stores.receipts.complete(held.key, "charge", "one", "charged")
        assert done.output == "charged"

    async def _ended(self, scene: Scene) -> None:
        """Bring a run to its end: facts 2 and 3 are settled progress, fact 4 is the terminal."""
        held = await scene.started()
        settled = [SettledProgress(event_id=f"settled-{n}", payload={"rows": n}) for n in (1, 2)]
        commit = TerminalCommit(
            ref=held.ref, claim=held.claim, result=FAILED, why=WHY, settled_progress=settled
        )
        expect(await scene.stores.terminals.commit(commit), Committed)

    async def _lease(self, scene: Scene) -> OutboxLease:
        lease = await self._try(scene)
        assert lease is not None
        return lease

    async def _try(self, scene: Scene) -> OutboxLease | None:
        return await scene.stores.outbox.lease_run(
            RUN, scene.owner("dispatcher"), lease=LEASE, facts_per_run=10
        )

    async def _due(self, scene: Scene) -> list[OutboxLease]:
        return list(
            await scene.stores.outbox.lease_due(
                scene.owner("dispatcher"), runs=10, lease=LEASE, facts_per_run=10
            )
        )
