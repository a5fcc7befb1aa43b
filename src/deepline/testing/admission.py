"""What every `Admission` keeps (C05, C07, I24, I25, I26)."""

import attrs
import trio

from deepline.core.model.claim import Fresh
from deepline.core.model.identity import RunId
from deepline.core.model.ledger import CREATED, created_event_id
from deepline.ports.admission import SubmitReceipt
from deepline.testing.scene import LANE, LEASE, RELEASE, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")


class AdmissionContract:
    """Asks for `stores`."""

    async def test_submit_commits_everything(self, stores: Stores) -> None:
        """When submit returns, run, launch, input, created fact and claimable task exist (I24)."""
        scene = await Scene.on(stores)
        receipt = await scene.submit(acknowledged=False)

        assert receipt.run_created
        assert receipt.task_created
        assert not receipt.task_recovery_required
        found = await stores.runs.read(RUN, None)
        assert found is not None
        assert found.run.task_id == receipt.task_id is not None
        assert await stores.launches.read(RUN, caller="contract") == scene.submission().launch
        assert await stores.launches.read_input(RUN) == {"rows": [1, 2]}
        assert await scene.facts() == [(1, created_event_id(RUN), CREATED)]
        assert len(await scene.claim()) == 1

    async def test_a_run_is_submitted_once(self, stores: Stores) -> None:
        """A second submit of a run id answers the run and changes nothing (I25, I26)."""
        scene = await Scene.on(stores)
        first = await scene.submit()
        again = scene.submission()
        changed = attrs.evolve(again, launch=attrs.evolve(again.launch, play_name="other"))

        (second,) = await stores.admission.submit([changed])

        assert not second.run_created
        assert not second.task_created
        assert second.task_id == first.task_id
        launch = await stores.launches.read(RUN, caller="contract")
        assert launch is not None
        assert launch.play_name == "play"
        assert len(await scene.claim()) == 1

    async def test_a_batch_is_answered_in_order(self, stores: Stores) -> None:
        """Each submission of a batch gets its answer in its place, a repeated run id once made."""
        scene = await Scene.on(stores)
        names = ["run-c", "run-a", "run-c", "run-b"]

        receipts = await stores.admission.submit([scene.submission(name) for name in names])

        assert [receipt.run_id for receipt in receipts] == names
        assert [receipt.run_created for receipt in receipts] == [True, True, False, True]
        assert len(await scene.claim()) == 3

    async def test_submitters_race(self, stores: Stores) -> None:
        """Of submitters that race with one run id exactly one makes it."""
        scene = await Scene.on(stores)
        receipts: list[SubmitReceipt] = []

        async def submit() -> None:
            receipts.extend(await stores.admission.submit([scene.submission()]))

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(submit)

        assert sorted(receipt.run_created for receipt in receipts) == [False, False, False, True]
        assert len({receipt.task_id for receipt in receipts}) == 1

    async def test_lanes_are_made_ready_once(self, stores: Stores) -> None:
        """Making a lane ready is idempotent and safe under concurrent callers (C07.4)."""
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(stores.admission.ensure_lane, LANE, RELEASE)

        assert [(state.lane, state.release_id) for state in await stores.lanes.all()] == [
            (LANE, RELEASE)
        ]

    async def test_created_projected_at_submit(self, stores: Stores) -> None:
        """With `project_created` the ledger knows the run at once and nothing waits for it."""
        if not stores.holds_ledger:
            return
        scene = await Scene.on(stores)

        await stores.admission.submit([scene.submission()], project_created=True)

        (event,) = await stores.run_events.read(RUN, after=0, limit=10)
        assert (event.event_id, event.kind) == (created_event_id(RUN), CREATED)
        due = await stores.outbox.lease_due("reader", runs=10, lease=LEASE, facts_per_run=10)
        assert not due
        (prepared,) = await scene.claim()
        expect(prepared, Fresh)

    async def test_a_missing_task_is_spawned_again(self, stores: Stores) -> None:
        """A run without its task says so, and recovery makes the run claimable (C07.8)."""
        scene = await Scene.on(stores)
        await scene.submit()
        await stores.lose_task(RUN)

        (damaged,) = await stores.admission.submit([scene.submission()])
        recovered = await stores.admission.recover_task(scene.submission())

        assert damaged.task_recovery_required
        assert recovered.task_created
        assert recovered.task_id is not None
        (prepared,) = await scene.claim()
        assert expect(prepared, Fresh).claim.task_id == recovered.task_id

    async def test_recovery_leaves_a_present_task(self, stores: Stores) -> None:
        """Recovery of a run that has its task makes no second one (I25)."""
        scene = await Scene.on(stores)
        first = await scene.submit()

        again = await stores.admission.recover_task(scene.submission())

        assert (again.task_id, again.task_created) == (first.task_id, False)
        assert len(await scene.claim()) == 1
