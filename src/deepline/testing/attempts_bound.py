"""What every `Attempts` keeps when a sandbox is recorded (C46.4, C64, I12, I50)."""

from deepline.core.model.identity import RunId
from deepline.core.model.why import Why
from deepline.ports.cleanup import JobAgain, JobDone
from deepline.testing.scene import LATER, WHY, Scene
from deepline.testing.stores import Stores

RUN = RunId("run-1")


class BoundAttemptsContract:
    """Asks for `stores`."""

    async def test_a_bound_sandbox_is_on_the_attempt(self, stores: Stores) -> None:
        """What a later claim needs to find the runner is stored before the runner starts."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())

        attempt = await stores.attempts.read(held.key)

        assert attempt is not None
        assert attempt.suspension == scene.detached(held)

    async def test_a_live_runner_is_not_cleaned_up(self, stores: Stores) -> None:
        """While the attempt lives no job of its sandbox is given out (I12)."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        assert await scene.jobs() == []
        await scene.park(held)

        assert await scene.jobs() == []

    async def test_a_late_sandbox_is_owed_its_deletion(self, stores: Stores) -> None:
        """A sandbox made for a run that was cancelled meanwhile gets a cleanup job (C64, I50)."""
        scene = await Scene.on(stores)
        held = await scene.reserved(await scene.started())
        await stores.terminals.cancel(RUN, by="someone", reason="changed my mind", why=WHY)
        sandbox = scene.sandbox_of(held)

        assert not await scene.bind(held, sandbox)

        (job,) = await scene.jobs()
        assert (job.key, job.sandbox_id, job.routing_domain) == (
            held.key,
            sandbox.sandbox_id,
            sandbox.routing_domain,
        )

    async def test_a_sandbox_later_than_its_cleanup_is_found(self, stores: Stores) -> None:
        """A create that lands after its name was searched in vain reopens the job (I50)."""
        scene = await Scene.on(stores)
        held = await scene.reserved(await scene.started())
        await stores.terminals.cancel(RUN, by="someone", reason="changed my mind", why=WHY)
        (job,) = await scene.jobs()
        assert await stores.cleanup.finish(job, JobDone())
        assert await scene.jobs() == []

        assert not await scene.bind(held, scene.sandbox_of(held))

        (again,) = await scene.jobs()
        assert again.sandbox_id == scene.sandbox_of(held).sandbox_id

    async def test_a_late_sandbox_is_looked_for_at_once(self, stores: Stores) -> None:
        """A job that was put off while only a name was known is due when its sandbox appears."""
        scene = await Scene.on(stores)
        held = await scene.reserved(await scene.started())
        await stores.terminals.cancel(RUN, by="someone", reason="changed my mind", why=WHY)
        (job,) = await scene.jobs()
        assert await stores.cleanup.finish(job, JobAgain(delay=LATER, failed=False))
        assert await scene.jobs() == []

        assert not await scene.bind(held, scene.sandbox_of(held))

        (again,) = await scene.jobs()
        assert again.sandbox_id == scene.sandbox_of(held).sandbox_id

    async def test_a_fall_back_is_written_down_once(self, stores: Stores) -> None:
        """What is told of the choice of a provider stands with the first bind, and only there."""
        scene = await Scene.on(stores)
        held = await scene.reserved(await scene.started())
        why = Why("sandbox_operation.fell_back", {"passed_over": "daytona (connection)"})

        for _ in range(2):
            assert await scene.bind(held, scene.sandbox_of(held), why)

        evidence = await stores.runs.evidence(RUN, None)
        assert evidence is not None
        assert [one.why for one in evidence.decisions if one.why.rule == why.rule] == [why]

    async def test_an_old_holder_does_not_touch_a_living_runner(self, stores: Stores) -> None:
        """A bind repeated after a take-over leads to no delete while the attempt lives (I12)."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        await scene.lose_claim()
        adopted = await scene.wake()

        assert not await scene.bind(held, scene.sandbox_of(held))

        assert await scene.jobs() == []
        assert await stores.attempts.is_live(adopted.ref)
