"""What every `Runs` keeps (C08, explain)."""

from datetime import timedelta

from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.result import Completed
from deepline.core.model.run import RunStatus
from deepline.ports.runs import RunFilter
from deepline.testing.scene import LANE, PROVIDER, RELEASE, WHY, Scene
from deepline.testing.stores import Stores

RUN = RunId("run-1")
ORG, OTHER = OrgId("org-1"), OrgId("org-2")


class RunsContract:
    """Asks for `stores`."""

    async def test_a_run_is_read_as_submitted(self, stores: Stores) -> None:
        """A queued run tells who, what and where, and has no result."""
        scene = await Scene.on(stores)
        receipt = await scene.submit(acknowledged=False)

        outcome = await stores.runs.read(RUN, ORG)

        assert outcome is not None
        run = outcome.run
        assert (run.run_id, run.org_id, run.play_name, run.lane) == (RUN, ORG, "play", LANE)
        assert (run.release_id, run.task_id) == (RELEASE, receipt.task_id)
        assert (run.status, run.attempt) == (RunStatus.QUEUED, 0)
        assert (run.created_projected_at, run.terminal_at, run.why) == (None, None, None)
        assert (outcome.result, list(outcome.log_tail)) == (None, [])

    async def test_a_run_belongs_to_its_organisation(self, stores: Stores) -> None:
        """Another organisation's run is as unknown as one that does not exist."""
        scene = await Scene.on(stores)
        await scene.submit()

        assert await stores.runs.read(RUN, OTHER) is None
        assert await stores.runs.evidence(RUN, OTHER) is None
        assert await stores.runs.read(RunId("run-unknown"), None) is None
        assert await stores.runs.evidence(RunId("run-unknown"), None) is None
        assert await stores.runs.read(RUN, None) is not None

    async def test_runs_are_listed_newest_first(self, stores: Stores) -> None:
        """A list is bounded, newest first, and goes on after the last run it showed."""
        scene = await Scene.on(stores)
        for number in range(4):
            await scene.submit(f"run-{number}")
            await stores.advance(timedelta(seconds=1))

        first = await stores.runs.list(RunFilter(limit=3))
        last = first[-1]
        second = await stores.runs.list(RunFilter(before=(last.created_at, last.run_id)))

        assert [run.run_id for run in first] == ["run-3", "run-2", "run-1"]
        assert [run.run_id for run in second] == ["run-0"]

    async def test_runs_are_filtered(self, stores: Stores) -> None:
        """A list may be of one organisation, of some states, of one play."""
        scene = await Scene.on(stores)
        await scene.commit(await scene.started("run-done"))
        await scene.submit("run-open")
        await scene.submit("run-other", org="org-2")

        async def listed(which: RunFilter) -> set[str]:
            return {run.run_id for run in await stores.runs.list(which)}

        assert await listed(RunFilter(org_id=OTHER)) == {"run-other"}
        assert await listed(RunFilter(statuses=[RunStatus.COMPLETED])) == {"run-done"}
        assert await listed(RunFilter(org_id=ORG, statuses=[RunStatus.QUEUED])) == {"run-open"}
        assert await listed(RunFilter(play_name="play")) == {"run-done", "run-open", "run-other"}
        assert await listed(RunFilter(play_name="nothing")) == set()

    async def test_a_list_begins_at_an_instant(self, stores: Stores) -> None:
        """`since` takes in the run that was submitted at that very instant, and none before."""
        scene = await Scene.on(stores)
        for number in range(3):
            await scene.submit(f"run-{number}")
            await stores.advance(timedelta(seconds=1))
        (_, middle, _) = await stores.runs.list(RunFilter())

        young = await stores.runs.list(RunFilter(since=middle.created_at, org_id=ORG))

        assert [run.run_id for run in young] == ["run-2", "run-1"]

    async def test_evidence_tells_the_whole_story(self, stores: Stores) -> None:
        """Attempts, decisions, facts, cleanup and the engine's side are there to explain a run."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        await stores.liveness.beat(held.key)
        await scene.commit(held, Completed(output=1))

        evidence = await stores.runs.evidence(RUN, ORG)

        assert evidence is not None
        assert evidence.run.status is RunStatus.COMPLETED
        (attempt,) = evidence.attempts
        assert (attempt.attempt, attempt.status, attempt.heartbeats) == (1, "completed", 1)
        assert attempt.sandbox_provider == PROVIDER
        assert attempt.sandbox_id == scene.sandbox_of(held).sandbox_id
        assert [(one.attempt, one.why) for one in evidence.decisions] == [(1, WHY)]
        assert [fact.kind for fact in evidence.facts] == ["run.created", "run.completed"]
        (cleanup,) = evidence.cleanup
        assert (cleanup.attempt, cleanup.done_at, cleanup.failure_count) == (1, None, 0)
        assert evidence.engine is not None
        assert evidence.engine.state == "completed"
        assert evidence.queue_position is None

    async def test_evidence_of_a_run_in_line(self, stores: Stores) -> None:
        """A run that nobody claimed yet tells that it stands in line."""
        scene = await Scene.on(stores)
        await scene.submit("run-1")
        await scene.submit("run-2")

        evidence = await stores.runs.evidence(RunId("run-2"), None)

        assert evidence is not None
        assert evidence.queue_position is not None
        assert evidence.queue_position >= 1
        assert list(evidence.attempts) == []
