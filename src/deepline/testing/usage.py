"""What every `Usage` keeps (C55, C27)."""

from datetime import timedelta

from deepline.core.model.identity import OrgId, RunId
from deepline.ports.cleanup import JobDone
from deepline.testing.scene import PROVIDER, Scene
from deepline.testing.stores import Stores

RUN = RunId("run-1")
ORG = OrgId("org-1")
MINUTE = timedelta(minutes=1)


class UsageContract:
    """Asks for `stores`."""

    async def test_time_starts_when_a_sandbox_is_recorded(self, stores: Stores) -> None:
        """Binding a sandbox starts its time; an operation without one has none."""
        scene = await Scene.on(stores)
        held = await scene.reserved(await scene.started())
        assert not await stores.usage.of_run(RUN)

        await scene.bound(held)

        (use,) = await stores.usage.of_run(RUN)
        assert (use.run_id, use.attempt, use.provider) == (RUN, 1, PROVIDER)
        assert use.sandbox_id == scene.sandbox_of(held).sandbox_id
        assert use.ended_at is None

    async def test_time_ends_when_a_sandbox_is_gone(self, stores: Stores) -> None:
        """The proof of deletion ends the time, and then it counts for the organisation."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        since = held.claim.claimed_at - timedelta(hours=2)
        await stores.advance(MINUTE)
        await scene.commit(held)
        assert await stores.usage.of_organisation(ORG, since=since) == 0
        (job,) = await scene.jobs()

        await stores.cleanup.finish(job, JobDone())

        (use,) = await stores.usage.of_run(RUN)
        assert use.ended_at is not None
        length = use.ended_at - use.started_at
        assert MINUTE <= length < MINUTE * 2
        seconds = await stores.usage.of_organisation(ORG, since=since)
        assert abs(seconds - length.total_seconds()) < 0.001
        assert await stores.usage.of_organisation(OrgId("org-2"), since=since) == 0

    async def test_time_ends_at_the_first_acceptance(self, stores: Stores) -> None:
        """A delete that was accepted earlier ends the time there, not at its proof (I41)."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        await scene.commit(held)
        (job,) = await scene.jobs()
        await stores.cleanup.record_event(job, "provider_delete_accepted", {})
        await stores.advance(timedelta(seconds=50))

        await stores.cleanup.finish(job, JobDone())

        (use,) = await stores.usage.of_run(RUN)
        assert use.ended_at is not None
        assert use.ended_at - use.started_at < timedelta(seconds=45)

    async def test_nothing_is_added_where_nothing_is_missing(self, stores: Stores) -> None:
        """Backfilling is idempotent, and leaves a run alone that has not ended (C27)."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        assert not await stores.usage.backfill(RUN)
        await scene.commit(held)

        assert not await stores.usage.backfill(RUN)

        assert not await stores.usage.backfill(RunId("run-unknown"))
        assert len(await stores.usage.of_run(RUN)) == 1

    async def test_time_is_summed_up_by_organisation_and_by_run(self, stores: Stores) -> None:
        """Ended sandboxes count with their seconds, others as running; old ones are left out."""
        scene = await Scene.on(stores)
        first = await scene.bound(await scene.started("run-1"))
        since = first.claim.claimed_at - timedelta(hours=2)
        await stores.advance(MINUTE)
        await scene.commit(first)
        (job,) = await scene.jobs()
        await stores.cleanup.finish(job, JobDone())
        await scene.bound(await scene.started("run-2"))
        await scene.bound(await scene.started("run-3", org="org-2"))
        seconds = await stores.usage.of_organisation(ORG, since=since)

        both = await stores.usage.organisations(None, since=since, limit=10)
        runs = await stores.usage.runs(None, since=since, limit=10)

        assert [(use.org_id, use.running) for use in both] == [(ORG, 1), ("org-2", 1)]
        assert abs(both[0].seconds - seconds) < 0.001
        assert both[1].seconds == 0
        assert [(use.run_id, use.org_id, use.running) for use in runs] == [
            ("run-1", ORG, 0),
            ("run-2", ORG, 1),
            ("run-3", "org-2", 1),
        ]
        assert abs(runs[0].seconds - seconds) < 0.001
        mine = await stores.usage.runs(ORG, since=since, limit=1)
        assert [use.run_id for use in mine] == ["run-1"]
        assert len(await stores.usage.organisations(ORG, since=since, limit=10)) == 1
        assert len(await stores.usage.organisations(None, since=since, limit=1)) == 1
        later = first.claim.claimed_at + timedelta(days=1)
        left = await stores.usage.runs(ORG, since=later, limit=10)
        assert [use.run_id for use in left] == ["run-2"]
