"""What every `Capacity` keeps (C46, F20)."""

from datetime import timedelta

import trio

from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.identity import OrgId, RunId
from deepline.ports.capacity import OperationState, Reservation
from deepline.ports.cleanup import JobDone
from deepline.ports.errors import FenceLost, SandboxCapacity
from deepline.testing.refusals import refused
from deepline.testing.scene import LATER, PROVIDER, WHY, Held, Scene
from deepline.testing.stores import Stores

RUN = RunId("run-1")
ORG = OrgId("org-1")


class CapacityContract:
    """Asks for `stores`."""

    async def test_an_operation_is_written_down_first(self, stores: Stores) -> None:
        """A first reservation names the operation for good and says to create (C46.2)."""
        scene = await Scene.on(stores)
        held = await scene.started()

        reservation = await self._reserve(scene, held)

        operation = reservation.operation
        assert reservation.state is OperationState.CREATE
        assert (operation.run_id, operation.attempt) == (RUN, 1)
        assert (operation.org_id, operation.provider) == (ORG, PROVIDER)
        assert operation.token in operation.name
        assert len(operation.name) <= 63

    async def test_a_repeated_reservation_is_resumed(self, stores: Stores) -> None:
        """The same attempt gets the same operation, since its create may have been sent (C46.3)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        first = await self._reserve(scene, held)
        await stores.advance(timedelta(seconds=10))

        again = await self._reserve(scene, held)

        assert (again.operation, again.state) == (first.operation, OperationState.RESUME)
        assert again.age >= timedelta(seconds=10)

    async def test_attempts_do_not_share_operations(self, stores: Stores) -> None:
        """Each attempt has an operation of its own."""
        scene = await Scene.on(stores)
        one = await self._reserve(scene, await scene.started("run-1"))
        two = await self._reserve(scene, await scene.started("run-2"))

        assert one.operation.key != two.operation.key
        assert one.operation.token != two.operation.token
        assert one.operation.name != two.operation.name

    async def test_a_provider_has_a_limit(self, stores: Stores) -> None:
        """Over a provider's limit nothing is written, and the caller learns when to ask again."""
        scene = await Scene.on(stores)
        await self._reserve(scene, await scene.started("run-1"), provider_limit=1)
        held = await scene.started("run-2", org="org-2")

        problem = await refused(self._reserve(scene, held, provider_limit=1), SandboxCapacity)

        assert problem.retry_after > timedelta(0)
        assert (await self._reserve(scene, held, provider_limit=2)).state is OperationState.CREATE

    async def test_an_organisation_has_a_limit(self, stores: Stores) -> None:
        """One organisation's sandboxes do not count against another's limit."""
        scene = await Scene.on(stores)
        await self._reserve(scene, await scene.started("run-1"), org_limit=1)
        mine = await scene.started("run-2")
        others = await scene.started("run-3", org="org-2")

        await refused(self._reserve(scene, mine, org_limit=1), SandboxCapacity)
        reservation = await self._reserve(scene, others, org_limit=1, org="org-2")
        assert reservation.state is OperationState.CREATE

    async def test_a_sandbox_counts_until_it_is_gone(self, stores: Stores) -> None:
        """An ended run's sandbox holds its place until its deletion is proven (F20)."""
        scene = await Scene.on(stores)
        ended = await scene.bound(await scene.started("run-1"))
        await scene.commit(ended)
        held = await scene.started("run-2")
        await refused(self._reserve(scene, held, provider_limit=1), SandboxCapacity)
        (job,) = await scene.jobs()
        await stores.cleanup.finish(job, JobDone())

        reservation = await self._reserve(scene, held, provider_limit=1)

        assert reservation.state is OperationState.CREATE

    async def test_an_abandoned_operation_makes_room(self, stores: Stores) -> None:
        """A create that certainly was never sent holds no place and is owed no cleanup."""
        scene = await Scene.on(stores)
        held = await scene.started("run-1")
        first = await self._reserve(scene, held)

        await stores.capacity.abandon(first.operation)

        other = await scene.started("run-2")
        await self._reserve(scene, other, provider_limit=1)
        await scene.commit(held)
        assert await scene.jobs() == []

    async def test_a_bound_operation_is_not_abandoned(self, stores: Stores) -> None:
        """A sandbox that exists is not forgotten, nor its deletion once that is owed."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        assert held.operation is not None

        await stores.capacity.abandon(held.operation)

        await scene.commit(held)
        await stores.capacity.abandon(held.operation)
        assert len(await scene.jobs()) == 1

    async def test_reservations_need_a_live_attempt(self, stores: Stores) -> None:
        """An attempt that is over reserves nothing."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.terminals.cancel(RUN, by="someone", reason="enough", why=WHY)

        await refused(self._reserve(scene, held), FenceLost)

    async def test_a_resumed_play_gets_a_sandbox_of_its_own(self, stores: Stores) -> None:
        """After a sleep the old sandbox is deleted first, then another one is made (C46.3)."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        await scene.park(held, scene.asleep(held))
        await stores.advance(LATER)
        woken = await scene.wake()
        assert await stores.attempts.resume(woken.ref, woken.claim, Checkpoint())

        pending = await self._reserve(scene, woken)
        (job,) = await scene.jobs()
        await stores.cleanup.finish(job, JobDone())
        another = await self._reserve(scene, woken)

        assert (pending.operation, pending.state) == (held.operation, OperationState.FINISH_DELETE)
        assert another.state is OperationState.CREATE
        assert another.operation.token != pending.operation.token
        assert another.operation.name != pending.operation.name

    async def test_reservations_race(self, stores: Stores) -> None:
        """Racing attempts never hold more than the limit."""
        scene = await Scene.on(stores)
        attempts = [await scene.started(f"run-{number}") for number in range(4)]
        granted: list[Reservation] = []

        async def reserve(held: Held) -> None:
            try:
                granted.append(await self._reserve(scene, held, provider_limit=2))
            except SandboxCapacity:
                return

        async with trio.open_nursery() as nursery:
            for held in attempts:
                nursery.start_soon(reserve, held)

        assert len(granted) == 2

    async def _reserve(
        self,
        scene: Scene,
        held: Held,
        *,
        provider_limit: int | None = None,
        org_limit: int | None = None,
        org: str = "org-1",
    ) -> Reservation:
        return await scene.stores.capacity.reserve(
            held.ref,
            OrgId(org),
            PROVIDER,
            provider_limit=provider_limit,
            org_limit=org_limit,
        )
