"""What every `Admission` keeps (C05, C07, I24, I25, I26)."""

from datetime import timedelta

import attrs
import trio

from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.claim import Fresh
from deepline.core.model.identity import RunId
from deepline.core.model.ledger import CREATED, created_event_id
from deepline.core.model.result import Failed
from deepline.core.model.run import Run
from deepline.core.parking import RESUMED
from deepline.ports.admission import SubmitReceipt
from deepline.ports.errors import Refused
from deepline.ports.receipts import ReceiptDone, ReceiptInDoubt, StepResult
from deepline.ports.sheets import RowOutcome
from deepline.testing.refusals import refused
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

    async def test_an_unreadable_launch_is_refused(self, stores: Stores) -> None:
        """A launch that could not be read back is refused, and nothing of its batch is written."""
        scene = await Scene.on(stores)
        sound = scene.submission("run-2")
        broken = attrs.evolve(sound, launch=attrs.evolve(sound.launch, run_id=RUN, base_url=""))

        refusal = await refused(stores.admission.submit([sound, broken]), Refused)

        assert refusal.code == "launch_unusable"
        assert "baseUrl" in str(refusal)
        assert await stores.runs.read(RunId("run-2"), None) is None

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

    async def test_a_retry_and_the_run_before_it_name_each_other(self, stores: Stores) -> None:
        """A run tells which one it runs again, who asked, and which one runs it again."""
        scene = await Scene.on(stores)
        await scene.commit(await scene.started())
        for name in ("run-2", "run-3"):
            await stores.advance(timedelta(seconds=1))
            await stores.admission.submit([scene.retry(name)])

        first, last = await _run(stores, "run-1"), await _run(stores, "run-3")

        assert (first.retry_of, first.retried_as, first.submitted_by) == (None, "run-3", None)
        assert (last.retry_of, last.retried_as, last.submitted_by) == ("run-1", None, "key-1")
        assert (await _run(stores, "run-2")).retried_as is None

    async def test_a_run_goes_on_from_an_ended_one(self, stores: Stores) -> None:
        """It has the steps, receipts, good rows and answers of the other, which keeps its own."""
        scene = await Scene.on(stores)
        await _with_progress(scene)

        (receipt,) = await stores.admission.submit([scene.retry("run-2", continues=True)])

        assert receipt.run_created
        run = RunId("run-2")
        assert list(await stores.receipts.steps(run)) == [
            StepResult(step="zeta", attempt=0, output=1),
            StepResult(step="alpha", attempt=0, output=None),
        ]
        assert await stores.launches.read_checkpoint(run) == ANSWERED
        assert await stores.launches.read_checkpoint(RUN) == Checkpoint()
        rows = await stores.sheets.read_rows(run, "leads", after=-1, limit=10)
        assert [(row.row_index, row.attempt, row.outcome.output) for row in rows] == [(0, 0, "a")]
        assert len(await stores.sheets.read_rows(RUN, "leads", after=-1, limit=10)) == 2

        await scene.acknowledge("run-2")
        held = await scene.fresh()
        lease = stores.receipts.lease
        assert await lease(held.key, "done", "new") == ReceiptDone(attempt=0, output="paid")
        assert await lease(held.key, "begun", "new") == ReceiptInDoubt(attempt=0)
        assert list(await stores.sheets.open_sheet(held.key, "leads", total=3)) == [0]
        (counts,) = await stores.sheets.settled(held.key, ["leads"])
        assert (counts.completed, counts.failed, counts.total) == (1, 0, 3)

    async def test_a_run_goes_on_from_one_that_went_on(self, stores: Stores) -> None:
        """What the first was answered reaches the third, though the second never got there."""
        scene = await Scene.on(stores)
        await _with_progress(scene)
        await stores.admission.submit([scene.retry("run-2", continues=True)])
        await scene.acknowledge("run-2")
        await scene.commit(await scene.fresh())

        third = scene.retry("run-3", of="run-2", continues=True)
        await stores.admission.submit([third])
        (again,) = await stores.admission.submit([third])

        assert not again.run_created
        assert await stores.launches.read_checkpoint(RunId("run-3")) == ANSWERED
        assert len(await stores.receipts.steps(RunId("run-3"))) == 2

    async def test_a_retry_from_the_beginning_takes_nothing_over(self, stores: Stores) -> None:
        """Of a batch only those go on that ask for it."""
        scene = await Scene.on(stores)
        await _with_progress(scene)

        await stores.admission.submit([scene.retry("run-2"), scene.retry("run-3", continues=True)])

        assert not await stores.receipts.steps(RunId("run-2"))
        assert not await stores.sheets.namespaces(RunId("run-2"))
        assert await stores.launches.read_checkpoint(RunId("run-2")) == Checkpoint()
        assert len(await stores.receipts.steps(RunId("run-3"))) == 2


ANSWERED = Checkpoint(state={RESUMED: {"nap": {"kind": "sleep"}}})


async def _run(stores: Stores, name: str) -> Run:
    found = await stores.runs.read(RunId(name), None)
    assert found is not None
    return found.run


async def _with_progress(scene: Scene) -> None:
    """Bring the first run to a failed end with something of everything finished."""
    stores, held = scene.stores, await scene.bound(await scene.started())
    await stores.receipts.save_step(held.key, "zeta", 1)
    await stores.receipts.save_step(held.key, "alpha", None)
    await stores.receipts.lease(held.key, "done", "old")
    await stores.receipts.complete(held.key, "done", "old", "paid")
    await stores.receipts.lease(held.key, "begun", "old")
    await stores.sheets.open_sheet(held.key, "leads", total=3)
    await stores.sheets.finish_rows(
        held.key,
        "leads",
        [
            RowOutcome(row_index=0, input_row="A", output="a", error=None),
            RowOutcome(row_index=1, input_row="B", output=None, error="no answer"),
        ],
    )
    await scene.park(held, until=held.claim.claimed_at, checkpoint=ANSWERED)
    woken = await scene.wake()
    await scene.commit(woken, Failed(error="PLAY_FAILED: no"), from_waiting=True)
