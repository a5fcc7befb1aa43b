"""What every `Sandboxes` keeps (F66, C50, I12)."""

from datetime import UTC, datetime, timedelta

import attrs

from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.sandbox import RuntimeEnvironment, SandboxRef
from deepline.core.orphans import Use
from deepline.core.stated_gone import STATED
from deepline.ports.cleanup import JobDone
from deepline.ports.sandbox_provider import OwnedSandbox
from deepline.ports.sandboxes import SandboxQuery
from deepline.testing.scene import PROVIDER, Held, Scene
from deepline.testing.stores import Stores

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
STRANGER = OwnedSandbox(
    ref=SandboxRef(provider=PROVIDER, sandbox_id="sandbox-strange", routing_domain="domain-1"),
    name="dl-strange",
    operation_token="strange",  # noqa: S106 - no secret, an unknown one
    run_id="run-strange",
    created_at=LONG_AGO,
)


class SandboxesContract:
    """Asks for `stores`."""

    async def test_operations_carry_the_mark(self, stores: Stores) -> None:
        """What a store had made can be told from what another one had made."""
        scene = await Scene.on(stores)
        held = await scene.reserved(await scene.started())

        mark = await stores.sandboxes.mark()

        assert held.operation is not None
        assert held.operation.mark == mark == await stores.sandboxes.mark()
        assert len(mark) <= 63

    async def test_a_run_tells_what_it_may_hold(self, stores: Stores) -> None:
        """Each operation is a record, with whose credentials it was made by, until it is over."""
        scene = await Scene.on(stores)
        held = await scene.started()
        reservation = await stores.capacity.reserve(
            held.ref,
            OrgId("org-1"),
            PROVIDER,
            provider_limit=None,
            org_limit=None,
            environment=RuntimeEnvironment.PRODUCTION,
        )
        held = attrs.evolve(held, operation=reservation.operation)
        recorded = {
            "kind": "sandbox",
            "provider": PROVIDER,
            "resourceId": None,
            "routingDomain": None,
            "runtimeEnvironment": "production",
        }
        resources = stores.sandboxes.resources
        assert await resources(held.ref.run_id) == [recorded]
        held = await scene.bound(held)
        assert held.sandbox is not None
        bound = {
            **recorded,
            "resourceId": held.sandbox.sandbox_id,
            "routingDomain": held.sandbox.routing_domain,
        }
        assert await resources(held.ref.run_id) == [bound]
        assert await resources(RunId("run-2")) == []
        await scene.commit(held)
        assert await resources(held.ref.run_id) == [bound]
        (job,) = await scene.jobs()
        await stores.cleanup.finish(job, JobDone())
        assert await resources(held.ref.run_id) == []

    async def test_nobody_said_whose_credentials(self, stores: Stores) -> None:
        """A reservation that does not say keeps that it is not known (C10)."""
        scene = await Scene.on(stores)
        held = await scene.reserved(await scene.started())

        (resource,) = await stores.sandboxes.resources(held.ref.run_id)

        assert isinstance(resource, dict)
        assert resource["runtimeEnvironment"] is None

    async def test_a_live_attempt_uses_its_sandbox(self, stores: Stores) -> None:
        """From the reservation on, a sandbox of that name is in use and nobody's to owe (I12)."""
        scene = await Scene.on(stores)
        held = await scene.reserved(await scene.started())
        assert await self._use(stores, held) is Use.IN_USE
        held = await scene.bound(held)
        assert await self._use(stores, held) is Use.IN_USE
        await scene.park(held)

        assert await self._use(stores, held) is Use.IN_USE
        assert not await stores.sandboxes.owe(_listed(held))
        assert await scene.jobs() == []

    async def test_an_owed_sandbox_is_being_deleted(self, stores: Stores) -> None:
        """What an ended run leaves behind is owed already."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        await scene.commit(held)

        assert await self._use(stores, held) is Use.BEING_DELETED
        assert not await stores.sandboxes.owe(_listed(held))

    async def test_a_sandbox_that_should_be_gone_is_owed(self, stores: Stores) -> None:
        """One that is listed after its deletion was proven is owed once more."""
        scene = await Scene.on(stores)
        held = await self._gone(scene)
        standing = await stores.sandboxes.standing([_listed(held)])

        assert standing[0].use is Use.ENDED
        assert standing[0].ended_for is not None
        assert standing[0].age is not None
        assert standing[0].age > timedelta(days=365)
        assert await stores.sandboxes.owe(_listed(held))

        assert await self._use(stores, held) is Use.BEING_DELETED
        (job,) = await scene.jobs()
        assert (job.sandbox_id, job.key.run_id) == (_listed(held).ref.sandbox_id, "run-1")
        assert await stores.cleanup.finish(job, JobDone())
        assert await stores.sandboxes.owe(_listed(held))

    async def test_two_orphans_of_one_run_wait_for_each_other(self, stores: Stores) -> None:
        """While one is deleted the other is refused, and owed afterwards."""
        scene = await Scene.on(stores)
        held = await self._gone(scene)
        first = _listed(held)
        second = attrs.evolve(first, ref=attrs.evolve(first.ref, sandbox_id="sandbox-second"))
        assert await stores.sandboxes.owe(first)
        assert not await stores.sandboxes.owe(second)
        (job,) = await scene.jobs()
        await stores.cleanup.finish(job, JobDone())

        assert await stores.sandboxes.owe(second)

    async def test_a_stranger_is_unknown(self, stores: Stores) -> None:
        """A token that nobody here wrote down is unknown, unless its run lives here."""
        scene = await Scene.on(stores)
        await scene.started("run-1")
        living = attrs.evolve(STRANGER, run_id="run-1")

        uses = [one.use for one in await stores.sandboxes.standing([STRANGER, living])]

        assert uses == [Use.UNKNOWN, Use.IN_USE]
        assert await stores.sandboxes.owe(STRANGER)
        assert not await stores.sandboxes.owe(living)
        (job,) = await scene.jobs()
        assert (job.sandbox_id, job.routing_domain) == ("sandbox-strange", "domain-1")
        assert await stores.cleanup.finish(job, JobDone())

    async def test_another_name_is_not_ours(self, stores: Stores) -> None:
        """Our token under another name or run is a contradiction, and nothing is owed (I42)."""
        scene = await Scene.on(stores)
        held = await self._gone(scene)
        listed = _listed(held)

        for other in (
            attrs.evolve(listed, name="dl-another"),
            attrs.evolve(listed, run_id="run-another"),
        ):
            assert [one.use for one in await stores.sandboxes.standing([other])] == [Use.DIFFERS]
            assert not await stores.sandboxes.owe(other)

    async def test_records_are_chosen(self, stores: Stores) -> None:
        """Records tell how each sandbox stands, and can be chosen by what is known of them."""
        scene = await Scene.on(stores)
        await self._gone(scene, "run-gone")
        owed = await scene.bound(await scene.started("run-owed", org="org-2"))
        await scene.commit(owed)
        live = await scene.bound(await scene.started("run-live"))

        async def runs(query: SandboxQuery) -> list[str]:
            return sorted(one.run_id for one in await stores.sandboxes.records(query))

        assert await runs(SandboxQuery()) == ["run-live", "run-owed"]
        assert await runs(SandboxQuery(ended=True)) == ["run-gone", "run-live", "run-owed"]
        assert await runs(SandboxQuery(provider="other")) == []
        assert await runs(SandboxQuery(org_id=OrgId("org-2"))) == ["run-owed"]
        assert await runs(SandboxQuery(run_id=RunId("run-live"))) == ["run-live"]
        assert await runs(SandboxQuery(state="deleting")) == ["run-owed"]
        assert live.sandbox is not None
        assert live.operation is not None
        for name in (live.sandbox.sandbox_id, live.operation.name, live.operation.key):
            assert await runs(SandboxQuery(named=name)) == ["run-live"]
        records = {one.run_id: one for one in await stores.sandboxes.records(SandboxQuery())}
        assert (records[RunId("run-live")].in_use, records[RunId("run-owed")].in_use) == (
            True,
            False,
        )
        assert records[RunId("run-live")].owed_since is None
        assert records[RunId("run-owed")].owed_since is not None

    async def test_a_record_says_on_whose_word_it_ended(self, stores: Stores) -> None:
        """What a person stated stands beside the record once the deletion is closed (I40)."""
        scene = await Scene.on(stores)
        await scene.commit(await scene.bound(await scene.started("run-1")))
        (job,) = await scene.jobs()
        query = SandboxQuery(ended=True)

        await stores.cleanup.record_event(job, STATED, {"by": "ann", "why": "the account closed"})
        (open_record,) = await stores.sandboxes.records(query)
        assert open_record.stated is None
        await stores.cleanup.finish(job, JobDone())

        (record,) = await stores.sandboxes.records(query)
        assert record.stated is not None
        assert (record.state, record.stated.by) == ("gone", "ann")
        assert record.stated.why == "the account closed"

    async def test_records_come_in_pages(self, stores: Stores) -> None:
        """A page goes on behind the last operation of the one before."""
        scene = await Scene.on(stores)
        for number in range(3):
            await scene.bound(await scene.started(f"run-{number}"))

        first = await stores.sandboxes.records(SandboxQuery(limit=2))
        rest = await stores.sandboxes.records(SandboxQuery(limit=2, after=first[-1].operation_key))

        assert (len(first), len(rest)) == (2, 1)
        assert len({one.run_id for one in (*first, *rest)}) == 3

    async def _use(self, stores: Stores, held: Held) -> Use:
        (standing,) = await stores.sandboxes.standing([_listed(held)])
        return standing.use

    async def _gone(self, scene: Scene, run: str = "run-1") -> Held:
        """A run that ended, whose sandbox was proven gone."""
        held = await scene.bound(await scene.started(run))
        await scene.commit(held)
        (job,) = await scene.jobs()
        await scene.stores.cleanup.finish(job, JobDone())
        return held


def _listed(held: Held) -> OwnedSandbox:
    """The attempt's sandbox as its provider lists it."""
    assert held.operation is not None
    name = f"sandbox-{held.ref.run_id}-{held.ref.attempt}"
    return OwnedSandbox(
        ref=held.sandbox
        or SandboxRef(provider=PROVIDER, sandbox_id=name, routing_domain="domain-1"),
        name=held.operation.name,
        operation_token=held.operation.token,
        run_id=held.ref.run_id,
        created_at=LONG_AGO,
        mark=held.operation.mark,
    )
