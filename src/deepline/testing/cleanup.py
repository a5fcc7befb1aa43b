"""What every `Cleanup` keeps (C50, C51, I12, I40, I41, Q40)."""

from datetime import timedelta

import attrs
import trio

from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.sandbox import SandboxRef
from deepline.ports.cleanup import CleanupJob, JobAgain, JobDone
from deepline.testing.scene import LATER, LEASE, PROVIDER, Held, Scene
from deepline.testing.stores import Stores

RUN = RunId("run-1")
SOON = timedelta(seconds=10)


class CleanupContract:
    """Asks for `stores`."""

    async def test_a_job_names_its_sandbox(self, stores: Stores) -> None:
        """A job says what to delete, for whom, and how often it was tried."""
        scene = await Scene.on(stores)
        held = await self._ended(scene)

        (job,) = await scene.jobs()

        assert held.operation is not None
        assert held.sandbox is not None
        assert (job.key, job.org_id, job.provider) == (held.key, "org-1", PROVIDER)
        assert (job.sandbox_id, job.routing_domain) == (held.sandbox.sandbox_id, "domain-1")
        assert (job.sandbox_name, job.operation_token) == (
            held.operation.name,
            held.operation.token,
        )
        assert (job.cleanup_attempt, job.failure_count, job.capture_crash) == (1, 0, False)

    async def test_a_job_tells_how_long_it_has_been_owed(self, stores: Stores) -> None:
        """The age of a job is counted by the store's clock, from when the deletion was owed."""
        scene = await Scene.on(stores)
        await self._ended(scene)
        (young,) = await scene.jobs()
        await stores.cleanup.finish(young, JobAgain(delay=timedelta(0), failed=False))
        await stores.advance(timedelta(minutes=20))

        (old,) = await scene.jobs()

        assert timedelta(0) <= young.age < timedelta(minutes=1)
        assert timedelta(minutes=20) <= old.age < timedelta(minutes=21)

    async def test_only_known_providers_are_given(self, stores: Stores) -> None:
        """A controller gets jobs of the providers it can delete from (C52)."""
        scene = await Scene.on(stores)
        await self._ended(scene)

        assert not await stores.cleanup.claim("a", ["other"], limit=10, lease=LEASE)
        assert len(await stores.cleanup.claim("a", ["other", PROVIDER], limit=1, lease=LEASE)) == 1

    async def test_claims_are_bounded(self, stores: Stores) -> None:
        """No more jobs are given than asked for, the oldest due first."""
        scene = await Scene.on(stores)
        for number in range(3):
            await self._ended(scene, f"run-{number}")
            await stores.advance(timedelta(seconds=1))

        first = await scene.jobs(limit=2)

        assert [job.key.run_id for job in first] == ["run-0", "run-1"]

    async def test_a_leased_job_is_one_controllers(self, stores: Stores) -> None:
        """While a lease holds nobody else gets the job; afterwards its old holder is refused."""
        scene = await Scene.on(stores)
        await self._ended(scene)
        (first,) = await scene.jobs()
        assert await scene.jobs() == []
        await stores.advance(LEASE + timedelta(seconds=1))

        (second,) = await scene.jobs()

        assert second.cleanup_attempt == 2
        assert not await stores.cleanup.finish(first, JobDone())
        assert await stores.cleanup.finish(second, JobDone())

    async def test_each_claim_of_a_job_is_its_own(self, stores: Stores) -> None:
        """A controller that claims a job twice may not answer with its first claim."""
        scene = await Scene.on(stores)
        await self._ended(scene)
        (first,) = await stores.cleanup.claim("same", [PROVIDER], limit=9, lease=LEASE)
        await stores.advance(LEASE + timedelta(seconds=1))
        (second,) = await stores.cleanup.claim("same", [PROVIDER], limit=9, lease=LEASE)

        assert not await stores.cleanup.finish(first, JobDone())
        assert await stores.cleanup.finish(second, JobDone())

    async def test_controllers_race(self, stores: Stores) -> None:
        """Controllers that race do not get the same job."""
        scene = await Scene.on(stores)
        for number in range(6):
            await self._ended(scene, f"run-{number}")
        got: list[CleanupJob] = []

        async def claim() -> None:
            for _ in range(3):
                got.extend(await scene.jobs(limit=2))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(claim)

        assert sorted(job.key.run_id for job in got) == [f"run-{number}" for number in range(6)]

    async def test_jobs_of_one_attempt_are_given_at_once(self, stores: Stores) -> None:
        """A best-effort delete right after the end gets exactly its own jobs (C50.4)."""
        scene = await Scene.on(stores)
        mine = await self._ended(scene, "run-mine")
        await self._ended(scene, "run-other")

        (job,) = await stores.cleanup.claim_for(mine.key, scene.owner(), lease=LEASE)

        assert job.key == mine.key
        assert not await stores.cleanup.claim_for(mine.key, scene.owner(), lease=LEASE)
        assert [other.key.run_id for other in await scene.jobs()] == ["run-other"]

    async def test_no_job_of_a_live_attempt(self, stores: Stores) -> None:
        """Asking for the jobs of a living attempt gives none (I12)."""
        scene = await Scene.on(stores)
        held = await scene.parked()

        assert not await stores.cleanup.claim_for(held.key, scene.owner(), lease=LEASE)

    async def test_a_finished_job_is_gone(self, stores: Stores) -> None:
        """A job is finished once and does not come back."""
        scene = await Scene.on(stores)
        await self._ended(scene)
        (job,) = await scene.jobs()

        assert await stores.cleanup.finish(job, JobDone())

        assert not await stores.cleanup.finish(job, JobDone())
        await stores.advance(LATER)
        assert await scene.jobs() == []
        evidence = await stores.runs.evidence(RUN, None)
        assert evidence is not None
        assert [record.done_at is not None for record in evidence.cleanup] == [True]

    async def test_a_job_put_off_comes_again(self, stores: Stores) -> None:
        """A job that failed waits, counts its failure and learns where its sandbox lives (Q40)."""
        scene = await Scene.on(stores)
        await self._ended(scene)
        (job,) = await scene.jobs()
        again = JobAgain(delay=SOON, failed=True, routing_domain="domain-2")

        assert await stores.cleanup.finish(job, again)

        assert await scene.jobs() == []
        await stores.advance(SOON + timedelta(seconds=1))
        (second,) = await scene.jobs()
        assert (second.cleanup_attempt, second.failure_count) == (2, 1)
        assert second.routing_domain == "domain-2"
        assert await stores.cleanup.finish(second, JobAgain(delay=SOON, failed=False))
        await stores.advance(SOON + timedelta(seconds=1))
        (third,) = await scene.jobs()
        assert (third.failure_count, third.routing_domain) == (1, "domain-2")

    async def test_an_acceptance_is_for_exactly_one_sandbox(self, stores: Stores) -> None:
        """A stored acceptance proves a delete of this sandbox, run and attempt only (I40)."""
        scene = await Scene.on(stores)
        await self._ended(scene)
        (job,) = await scene.jobs()
        assert await stores.cleanup.acceptance(job) is None
        await stores.cleanup.record_event(job, "provider_delete_started", {"timeoutMs": 15_000})
        assert await stores.cleanup.acceptance(job) is None

        await stores.cleanup.record_event(job, "provider_delete_accepted", {})

        assert await stores.cleanup.acceptance(job) is not None
        for other in (
            attrs.evolve(job, sandbox_id="sandbox-other"),
            attrs.evolve(job, provider="other"),
            attrs.evolve(job, routing_domain="domain-2"),
            attrs.evolve(job, key=attrs.evolve(job.key, attempt=2)),
        ):
            assert await stores.cleanup.acceptance(other) is None

    async def test_the_first_acceptance_is_the_only_one(self, stores: Stores) -> None:
        """A second acceptance is not recorded; the first one's time stays (I41)."""
        scene = await Scene.on(stores)
        await self._ended(scene)
        (job,) = await scene.jobs()
        await stores.cleanup.record_event(job, "provider_delete_accepted", {"routingDomain": "a"})
        first = await stores.cleanup.acceptance(job)

        await stores.cleanup.record_event(job, "provider_delete_accepted", {"routingDomain": "b"})

        assert await stores.cleanup.acceptance(job) == first

    async def test_the_first_acceptance_ends_the_time(self, stores: Stores) -> None:
        """A sandbox whose provider takes long to delete it costs nothing meanwhile (C51.5)."""
        scene = await Scene.on(stores)
        await self._ended(scene)
        (job,) = await scene.jobs()
        await stores.cleanup.record_event(job, "provider_delete_started", {})
        (running,) = await stores.usage.of_run(RUN)
        assert running.ended_at is None

        await stores.cleanup.record_event(job, "provider_delete_accepted", {})

        accepted = await stores.cleanup.acceptance(job)
        assert accepted is not None
        (ended,) = await stores.usage.of_run(RUN)
        assert ended.ended_at == max(accepted.accepted_at, ended.started_at)
        await stores.cleanup.record_event(job, "provider_delete_accepted", {})
        await stores.cleanup.finish(job, JobDone())
        (kept,) = await stores.usage.of_run(RUN)
        assert kept == ended

    async def test_named_sandboxes_alone_are_leased(self, stores: Stores) -> None:
        """Whoever cancels takes up the jobs it can work on and no other, due or put off (C10)."""
        scene = await Scene.on(stores)
        held = await self._ended(scene)
        sandbox = held.sandbox
        assert sandbox is not None
        for other in (
            attrs.evolve(sandbox, sandbox_id="sandbox-other"),
            attrs.evolve(sandbox, provider="other"),
        ):
            assert await self._named(scene, other) == []
        assert await self._named(scene, sandbox, run="run-2") == []
        assert await self._named(scene) == []

        (job,) = await self._named(scene, attrs.evolve(sandbox, routing_domain="domain-9"), sandbox)

        assert (job.sandbox_id, job.key) == (sandbox.sandbox_id, held.key)
        assert await self._named(scene, sandbox) == []
        await stores.cleanup.finish(job, JobAgain(delay=SOON, failed=False))
        assert await scene.jobs() == []
        (again,) = await self._named(scene, sandbox)
        assert again.cleanup_attempt == 2
        await stores.cleanup.finish(again, JobDone())
        assert await self._named(scene, sandbox) == []

    async def test_a_live_sandbox_is_not_leased_by_name(self, stores: Stores) -> None:
        """Naming a sandbox gives nobody the authority to delete it (I12)."""
        scene = await Scene.on(stores)
        held = await scene.parked()
        assert held.sandbox is not None

        assert await self._named(scene, held.sandbox) == []

    async def _named(
        self, scene: Scene, *sandboxes: SandboxRef, run: str = "run-1"
    ) -> list[CleanupJob]:
        owner = scene.owner("canceller")
        claim = scene.stores.cleanup.claim_sandboxes
        return list(await claim(RunId(run), sandboxes, owner, lease=LEASE))

    async def test_a_found_sandbox_is_written_down(self, stores: Stores) -> None:
        """What a look-up found gets its time, an identity and, in the end, a next look-up (C48)."""
        scene = await Scene.on(stores)
        job, found = await self._unanswered(scene)

        assert await stores.cleanup.record_found(job, found)

        assert not await stores.cleanup.record_found(job, found)
        known = attrs.evolve(job, sandbox_id=found.sandbox_id, routing_domain="domain-1")
        await stores.cleanup.record_event(known, "provider_delete_accepted", {})
        await stores.cleanup.finish(job, JobAgain(delay=timedelta(0), failed=False))
        (second,) = await scene.jobs()
        assert (second.sandbox_id, second.searched) == (found.sandbox_id, True)
        assert await stores.cleanup.acceptance(second) is not None
        again = JobAgain(delay=timedelta(0), failed=False, forgets=True)
        assert await stores.cleanup.finish(second, again)
        (third,) = await scene.jobs()
        assert third.sandbox_id is None
        (use,) = await stores.usage.of_run(RUN)
        assert (use.sandbox_id, use.ended_at is not None) == (found.sandbox_id, True)

    async def test_a_second_sandbox_of_one_create(self, stores: Stores) -> None:
        """After the first one found is gone another may be found, and is written down as well."""
        scene = await Scene.on(stores)
        job, found = await self._unanswered(scene)
        await stores.cleanup.record_found(job, found)
        await stores.cleanup.finish(job, JobAgain(delay=timedelta(0), failed=False, forgets=True))
        (second,) = await scene.jobs()

        assert await stores.cleanup.record_found(
            second, attrs.evolve(found, sandbox_id="sandbox-later")
        )

        assert len(await stores.usage.of_run(RUN)) == 2

    async def test_a_found_sandbox_must_be_exactly_that(self, stores: Stores) -> None:
        """Under another token, name, organisation or owner nothing is written (C47, I42)."""
        scene = await Scene.on(stores)
        job, found = await self._unanswered(scene)

        for other in (
            attrs.evolve(job, operation_token=None),
            attrs.evolve(job, sandbox_name="dl-another"),
            attrs.evolve(job, org_id=OrgId("org-2")),
            attrs.evolve(job, key=attrs.evolve(job.key, attempt=2)),
            attrs.evolve(job, owner="somebody"),
            attrs.evolve(job, cleanup_attempt=7),
        ):
            assert not await stores.cleanup.record_found(other, found)
        assert not await stores.cleanup.record_found(job, attrs.evolve(found, provider="other"))
        assert not await stores.usage.of_run(RUN)

    async def test_a_known_sandbox_is_not_replaced(self, stores: Stores) -> None:
        """A job whose sandbox was reported by its maker keeps that one."""
        scene = await Scene.on(stores)
        held = await self._ended(scene)
        (job,) = await scene.jobs()
        assert held.sandbox is not None

        other = attrs.evolve(held.sandbox, sandbox_id="sandbox-other")
        assert not await stores.cleanup.record_found(job, other)

    async def _unanswered(self, scene: Scene) -> tuple[CleanupJob, SandboxRef]:
        """The job of a create that nobody heard the answer of, and the sandbox it made."""
        held = await scene.reserved(await scene.started())
        await scene.commit(held)
        (job,) = await scene.jobs()
        assert job.sandbox_id is None
        return job, scene.sandbox_of(held)

    async def _ended(self, scene: Scene, run: str = "run-1") -> Held:
        """A run that ended with a sandbox."""
        held = await scene.bound(await scene.started(run))
        await scene.commit(held)
        return held
