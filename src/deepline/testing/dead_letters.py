"""What every `DeadLetters` keeps (C26)."""

from datetime import timedelta

from deepline.core.model.identity import RunId
from deepline.testing.scene import LATER, LEASE, Scene
from deepline.testing.stores import Stores

RUN = RunId("run-1")


class DeadLettersContract:
    """Asks for `stores`."""

    async def test_a_refused_fact_is_listed(self, stores: Stores) -> None:
        """A dead letter is shown with what was said about it; other facts are not."""
        scene = await Scene.on(stores)
        await scene.submit("run-2", acknowledged=False)
        assert list(await stores.dead_letters.list()) == []
        await self._dead(scene, "run-1")

        (letter,) = await stores.dead_letters.list()

        assert (letter.run_id, letter.org_id, letter.seq) == (RUN, "org-1", 1)
        assert (letter.event_id, letter.kind) == ("run-created:run-1", "run.created")
        assert (letter.attempts, letter.error) == (1, "it was refused")

    async def test_letters_come_in_pages(self, stores: Stores) -> None:
        """Pages go by run id, and one run can be asked for alone."""
        scene = await Scene.on(stores)
        for number in range(3):
            await self._dead(scene, f"run-{number}")

        first = await stores.dead_letters.list(limit=2)
        rest = await stores.dead_letters.list(after=first[-1].run_id, limit=2)

        assert [one.run_id for one in (*first, *rest)] == ["run-0", "run-1", "run-2"]
        assert [one.run_id for one in await stores.dead_letters.list(run_id=RUN)] == [RUN]

    async def test_a_revived_letter_is_due_with_a_clean_count(self, stores: Stores) -> None:
        """Reviving one run makes its letter due now, and nobody else's; who did it is kept."""
        scene = await Scene.on(stores)
        await self._dead(scene, "run-1")
        await self._dead(scene, "run-2")
        await stores.advance(LATER + timedelta(seconds=1))

        assert await stores.dead_letters.revive(run_id=RUN, by="ann") == 1

        (lease,) = await stores.outbox.lease_due(
            scene.owner("dispatcher"), runs=10, lease=LEASE, facts_per_run=10
        )
        assert (lease.run_id, lease.attempts) == (RUN, 0)
        assert await stores.outbox.delivered(lease, through_seq=1)
        assert [one.run_id for one in await stores.dead_letters.list()] == ["run-2"]
        evidence = await stores.runs.evidence(RUN, None)
        assert evidence is not None
        decision = evidence.decisions[-1].why
        assert (decision.rule, decision.evidence["by"]) == ("outbox.revived", "ann")

    async def test_all_letters_are_revived_in_bounded_steps(self, stores: Stores) -> None:
        """Without a run every letter is revived, so many at a time, until none is left."""
        scene = await Scene.on(stores)
        for number in range(3):
            await self._dead(scene, f"run-{number}")

        counts = [
            await stores.dead_letters.revive(run_id=None, by="ann", limit=2) for _ in range(3)
        ]

        assert counts == [2, 1, 0]
        assert list(await stores.dead_letters.list()) == []
        assert await stores.dead_letters.revive(run_id=RunId("run-unknown"), by="ann") == 0

    async def _dead(self, scene: Scene, run: str) -> None:
        """Make the created fact of a run a dead letter."""
        await scene.submit(run, acknowledged=False)
        lease = await scene.stores.outbox.lease_run(
            RunId(run), scene.owner("dispatcher"), lease=LEASE, facts_per_run=1
        )
        assert lease is not None
        assert await scene.stores.outbox.failed(
            lease, error="it was refused", delay=LATER, dead=True
        )
