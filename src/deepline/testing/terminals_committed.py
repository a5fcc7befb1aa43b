"""What every `Terminals` keeps when a run ends under its fence (C20–C22, I01, I03, I04)."""

import attrs
import trio

from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.heartbeat import NoFence
from deepline.core.model.identity import LeaseToken, RunId
from deepline.core.model.ledger import (
    PROGRESS_SETTLED,
    SettledProgress,
    created_event_id,
    terminal_event_id,
)
from deepline.core.model.result import Completed, Failed, Report
from deepline.core.model.run import RunStatus
from deepline.ports.terminals import (
    Cancelled,
    CommitOutcome,
    Committed,
    NotCommitted,
    TerminalCommit,
)
from deepline.testing.scene import LATER, LEASE, WHY, Held, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")
FAILED = Failed(
    error="PLAY_FAILED: it broke",
    cause={"line": 3},
    report=Report(logs=("one", "two"), stats={"rows": 2}),
)


class CommittedTerminalsContract:
    """Asks for `stores`."""

    async def test_a_commit_ends_everything(self, stores: Stores) -> None:
        """Run, attempt, result, reason and engine task end in one commit (C21)."""
        scene = await Scene.on(stores)
        held = await scene.started()

        committed = expect(await scene.commit(held, Completed(output={"n": 1})), Committed)

        assert (committed.status, committed.result) == (
            RunStatus.COMPLETED,
            Completed(output={"n": 1}),
        )
        outcome = await stores.runs.read(RUN, None)
        assert outcome is not None
        assert outcome.result == Completed(output={"n": 1})
        assert (outcome.run.status, outcome.run.why) == (RunStatus.COMPLETED, WHY)
        assert outcome.run.terminal_at == committed.committed_at
        attempt = await stores.attempts.read(held.key)
        assert attempt is not None
        assert attempt.status is AttemptStatus.COMPLETED
        assert list(await stores.engine.extend([held.claim], LEASE)) == [held.claim]
        assert [lane.open_tasks for lane in await stores.lanes.all()] == [0]

    async def test_settled_progress_comes_before_the_terminal(self, stores: Stores) -> None:
        """The settled facts precede the one terminal fact, which is last (I20, C22)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        settled = [
            SettledProgress(event_id=f"settled-{name}", payload={"sheet": name}) for name in "ba"
        ]

        outcome = await stores.terminals.commit(
            TerminalCommit(
                ref=held.ref, claim=held.claim, result=FAILED, why=WHY, settled_progress=settled
            )
        )

        assert expect(outcome, Committed).status is RunStatus.FAILED
        assert [(event_id, kind) for _, event_id, kind in await scene.facts()] == [
            (created_event_id(RUN), "run.created"),
            ("settled-b", PROGRESS_SETTLED),
            ("settled-a", PROGRESS_SETTLED),
            (terminal_event_id(RUN), "run.failed"),
        ]
        lease = await stores.outbox.lease_run(RUN, "reader", lease=LEASE, facts_per_run=10)
        assert lease is not None
        assert [fact.seq for fact in lease.facts] == [2, 3, 4]
        assert lease.facts[0].payload == {"sheet": "b"}
        assert lease.facts[-1].payload["status"] == "failed"
        assert lease.facts[-1].payload["attempt"] == held.ref.attempt
        assert lease.facts[-1].payload["why"] == WHY.rule

    async def test_a_terminal_never_changes(self, stores: Stores) -> None:
        """A second commit writes nothing and tells how the run stands (I01)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await scene.commit(held)

        second = await scene.commit(held, FAILED)

        assert expect(second, NotCommitted).status is RunStatus.COMPLETED
        outcome = await stores.runs.read(RUN, None)
        assert outcome is not None
        assert outcome.result == Completed(output="done")
        assert len(await scene.facts()) == 2

    async def test_only_the_holder_commits(self, stores: Stores) -> None:
        """A wrong lease, a stale claim or an unknown run writes nothing (I04)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        ref, claim = held.ref, held.claim
        strangers = [
            Held(ref=attrs.evolve(ref, lease_token=LeaseToken("guessed")), claim=claim),
            Held(ref=attrs.evolve(ref, attempt=2), claim=claim),
            Held(ref=ref, claim=attrs.evolve(claim, owner="nobody")),
        ]

        for stranger in strangers:
            refused = expect(await scene.commit(stranger), NotCommitted)
            assert refused.status is RunStatus.RUNNING
        unknown = RunId("run-unknown")
        gone = Held(
            ref=attrs.evolve(ref, run_id=unknown), claim=attrs.evolve(claim, run_id=unknown)
        )
        assert expect(await scene.commit(gone), NotCommitted).status is None

        assert len(await scene.facts()) == 1
        assert await stores.attempts.is_live(ref)

    async def test_a_waiting_attempt_is_ended_on_purpose_only(self, stores: Stores) -> None:
        """A waiting attempt is ended by a commit that says so and by no other (C20)."""
        scene = await Scene.on(stores)
        await scene.parked()
        await stores.advance(LATER)
        held = await scene.wake()

        refused = await scene.commit(held)
        accepted = await scene.commit(held, from_waiting=True)

        assert expect(refused, NotCommitted).status is RunStatus.WAITING
        expect(accepted, Committed)

    async def test_a_stored_runner_terminal_is_preserved(self, stores: Stores) -> None:
        """On request the terminal stored on the attempt wins over the candidate (I03, Q44)."""
        scene = await Scene.on(stores)
        held = await scene.bound(await scene.started())
        await stores.terminals.offer(held.key, Completed(output=1), NoFence(), WHY)

        outcome = await stores.terminals.commit(
            TerminalCommit(
                ref=held.ref,
                claim=held.claim,
                result=FAILED,
                why=WHY,
                preserve_runner_terminal=True,
            )
        )

        committed = expect(outcome, Committed)
        assert (committed.status, committed.result) == (RunStatus.COMPLETED, Completed(output=1))
        found = await stores.runs.read(RUN, None)
        assert found is not None
        assert found.result == Completed(output=1)

    async def test_the_candidate_stands_where_nothing_is_stored(self, stores: Stores) -> None:
        """Preserving changes nothing when no runner terminal is stored (Q44)."""
        scene = await Scene.on(stores)
        held = await scene.started()

        outcome = await stores.terminals.commit(
            TerminalCommit(
                ref=held.ref,
                claim=held.claim,
                result=FAILED,
                why=WHY,
                preserve_runner_terminal=True,
            )
        )

        assert expect(outcome, Committed).status is RunStatus.FAILED

    async def test_another_hand_cancels_the_engine_task(self, stores: Stores) -> None:
        """A settlement without a claim ends the engine task whoever holds it (C65)."""
        scene = await Scene.on(stores)
        held = await scene.parked()

        outcome = await stores.terminals.commit(
            TerminalCommit(
                ref=held.ref, claim=None, result=Completed(output=1), why=WHY, from_waiting=True
            )
        )

        expect(outcome, Committed)
        await stores.advance(LATER)
        assert await scene.claim() == []
        assert [lane.open_tasks for lane in await stores.lanes.all()] == [0]

    async def test_logs_are_kept_on_request(self, stores: Stores) -> None:
        """The log tail is stored with the terminal when asked for and left out otherwise."""
        scene = await Scene.on(stores)
        for name, keep in (("run-kept", True), ("run-left", False)):
            held = await scene.started(name)
            commit = TerminalCommit(
                ref=held.ref, claim=held.claim, result=FAILED, why=WHY, keep_log_tail=keep
            )
            await stores.terminals.commit(commit)

        kept = await stores.runs.read(RunId("run-kept"), None)
        left = await stores.runs.read(RunId("run-left"), None)
        assert kept is not None
        assert left is not None
        assert list(kept.log_tail) == ["one", "two"]
        assert list(left.log_tail) == []
        for outcome in (kept, left):
            assert outcome.result is not None
            assert outcome.result.report == Report(stats={"rows": 2})

    async def test_an_end_owes_every_sandbox(self, stores: Stores) -> None:
        """Whatever any attempt may still hold is owed a cleanup in the commit (C50, C44)."""
        scene = await Scene.on(stores)
        first = await scene.reserved(await scene.started())
        await scene.lose_claim()
        second = await scene.bound(await scene.fresh())
        commit = TerminalCommit(
            ref=second.ref,
            claim=second.claim,
            result=FAILED,
            why=WHY,
            request_crash_diagnostic=True,
        )

        await stores.terminals.commit(commit)

        jobs = {job.key: job for job in await scene.jobs()}
        assert set(jobs) == {first.key, second.key}
        assert (jobs[first.key].capture_crash, jobs[second.key].capture_crash) == (False, True)

    async def test_commits_race(self, stores: Stores) -> None:
        """Of commits that race exactly one ends the run, with one terminal fact (I01)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        outcomes: list[CommitOutcome] = []

        async def commit(result: Completed | Failed) -> None:
            outcomes.append(await scene.commit(held, result))

        async with trio.open_nursery() as nursery:
            for result in (Completed(output=1), FAILED, Completed(output=2)):
                nursery.start_soon(commit, result)

        (winner,) = [one for one in outcomes if isinstance(one, Committed)]
        found = await stores.runs.read(RUN, None)
        assert found is not None
        assert found.result is not None
        assert attrs.evolve(found.result, report=winner.result.report) == winner.result
        assert len(await scene.facts()) == 2

    async def test_commit_and_cancel_race(self, stores: Stores) -> None:
        """Whichever of a commit and a cancel comes first stands; the other learns of it (Q37)."""
        scene = await Scene.on(stores)
        for number in range(8):
            name = f"run-{number}"
            held = await scene.started(name)
            ends: list[object] = []

            async def commit(held: Held = held, ends: list[object] = ends) -> None:
                ends.append(await scene.commit(held))

            async def cancel(held: Held = held, ends: list[object] = ends) -> None:
                ends.append(
                    await stores.terminals.cancel(
                        held.ref.run_id, by="someone", reason="enough", why=WHY
                    )
                )

            async with trio.open_nursery() as nursery:
                nursery.start_soon(commit)
                nursery.start_soon(cancel)

            assert sum(isinstance(end, Committed | Cancelled) for end in ends) == 1
            kinds = [kind for _, _, kind in await scene.facts(name)]
            assert len(kinds) == 2
