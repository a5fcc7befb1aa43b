"""Ends of runs: one commit, first write wins, every refusal an answer (C20, C21, C32, Q37, Q44)."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio

from deepline.core.model.claim import Fresh
from deepline.core.model.heartbeat import (
    NEVER_BEATEN,
    ExpectHeartbeat,
    HeartbeatIdentity,
    NoFence,
)
from deepline.core.model.identity import AttemptKey, AttemptRef, LeaseToken, ReleaseId, RunId
from deepline.core.model.ledger import SettledProgress
from deepline.core.model.result import Completed, Failed, Report
from deepline.core.model.run import RunStatus
from deepline.ports.errors import MalformedDocument, Refused
from deepline.ports.liveness import BeatAccepted, BeatRefused
from deepline.ports.terminals import (
    Cancelled,
    Committed,
    NotCancelled,
    NotCommitted,
    OfferAlreadyStored,
    OfferRefused,
    OfferStored,
    Unstarted,
)
from tests.support.store import FAILURE, OUTPUT, WHY, StoreBench, key_of


async def test_a_commit_makes_everything_of_an_end_durable(bench: StoreBench) -> None:
    """Terminal, attempt, facts in order, reason, cleanup, engine task: one commit has all."""
    work = await bench.started()
    await bench.bind(work)

    outcome = await bench.commit(
        work,
        Failed(error="BROKEN: no", report=Report(logs=("a", "b"))),
        settled_progress=[SettledProgress(event_id="settled-1", payload={"rows": 2})],
        keep_log_tail=True,
        request_crash_diagnostic=True,
    )

    assert isinstance(outcome, Committed)
    assert outcome.status is RunStatus.FAILED
    status, logs, why = await bench.row("select status, log_tail, why from deepline.runs")
    assert (status, logs, why) == (
        "failed",
        ["a", "b"],
        {"rule": "test.rule", "evidence": {"seen": 1}},
    )
    assert await bench.row("select status from deepline.attempts") == "failed"
    assert await bench.rows("select seq, event_id, kind from deepline.outbox order by seq") == [
        (1, "run-created:run", "run.created"),
        (2, "settled-1", "run.progress_settled"),
        (3, "run-terminal:run", "run.failed"),
    ]
    payload = await bench.row("select payload from deepline.outbox where seq = 3")
    assert payload["result"]["error"] == "BROKEN: no"
    assert payload["logTail"] == ["a", "b"]
    assert await bench.rows("select rule from deepline.decisions") == ["test.rule"]
    assert await bench.rows(
        "select operation_key, sandbox_id, capture_crash from deepline.cleanup_jobs"
    ) == [("operation", "sandbox-1", True)]
    assert await bench.row("select sandbox_id, ended_at from deepline.sandbox_usage") == (
        "sandbox-1",
        None,
    )
    assert await bench.engine_state() == "completed"


async def test_a_second_commit_changes_nothing(bench: StoreBench) -> None:
    """A run ends once; whoever comes later learns how it stands (I01)."""
    work = await bench.started()
    await bench.commit(work)

    assert await bench.commit(work, FAILURE) == NotCommitted(status=RunStatus.COMPLETED)
    assert await bench.row("select count(*) from deepline.outbox where kind <> 'run.created'") == 1


WRONG_FENCES: list[Any] = [
    pytest.param(
        lambda ref: attrs.evolve(ref, lease_token=LeaseToken("other")), id="another lease"
    ),
    pytest.param(lambda ref: attrs.evolve(ref, attempt=2), id="another attempt"),
]


@pytest.mark.parametrize("change", WRONG_FENCES)
async def test_a_wrong_fence_writes_nothing(
    bench: StoreBench, change: Callable[[AttemptRef], AttemptRef]
) -> None:
    """Only the attempt's own lease ends its run (I04)."""
    work = await bench.started()

    outcome = await bench.commit(work, ref=change(work.attempt.ref))

    assert outcome == NotCommitted(status=RunStatus.RUNNING)
    assert await bench.row("select count(*) from deepline.outbox") == 1


async def test_an_unknown_run_has_no_status(bench: StoreBench) -> None:
    """A commit for a run that is gone says so."""
    work = await bench.started()
    ref = attrs.evolve(work.attempt.ref, run_id=RunId("nobody"))

    assert await bench.commit(work, ref=ref, claim=None) == NotCommitted(status=None)
    assert await bench.store.terminals.status(RunId("nobody")) is None


async def test_a_stale_owner_ends_nothing_after_a_new_claim(bench: StoreBench) -> None:
    """A parked run has one engine run for all its claims; the claim's owner tells them apart."""
    stale = await bench.parked()
    await bench.make_due("run")
    wake = await bench.claim_wake()

    refused = await bench.commit(stale, from_waiting=True)
    assert refused == NotCommitted(status=RunStatus.WAITING)
    assert isinstance(await bench.commit(wake, from_waiting=True), Committed)


async def test_a_waiting_attempt_is_ended_only_when_asked(bench: StoreBench) -> None:
    """A commit that expects a running attempt does not end a waiting one."""
    await bench.parked()
    await bench.make_due("run")
    wake = await bench.claim_wake()

    assert isinstance(await bench.commit(wake), NotCommitted)
    assert isinstance(await bench.commit(wake, from_waiting=True), Committed)


async def test_a_settlement_without_a_claim_cancels_the_task(bench: StoreBench) -> None:
    """Recovery and sweep end a run under its lease; its engine task ends with it (C65)."""
    work = await bench.parked()

    assert isinstance(await bench.commit(work, claim=None, from_waiting=True), Committed)
    assert await bench.engine_state() == "cancelled"


async def test_a_stored_terminal_wins_where_it_is_preserved(bench: StoreBench) -> None:
    """The runner's own result beats the candidate of a salvage (I03, Q44)."""
    work = await bench.started()
    await bench.store.terminals.offer(key_of(work.attempt.ref), OUTPUT, NoFence(), WHY)

    outcome = await bench.commit(work, FAILURE, preserve_runner_terminal=True)

    assert isinstance(outcome, Committed)
    assert (outcome.status, outcome.result) == (RunStatus.COMPLETED, OUTPUT)
    assert await bench.row("select terminal ->> 'status' from deepline.runs") == "completed"


async def test_a_candidate_counts_where_nothing_is_preserved(bench: StoreBench) -> None:
    """Without preservation the committed result is the one given."""
    work = await bench.started()
    await bench.store.terminals.offer(key_of(work.attempt.ref), OUTPUT, NoFence(), WHY)

    outcome = await bench.commit(work, FAILURE)

    assert isinstance(outcome, Committed)
    assert outcome.result == FAILURE


async def test_a_finaliser_ends_a_run_whose_attempt_was_retired(bench: StoreBench) -> None:
    """When the engine attempts are used up, a retired newest attempt is no reason to stay open."""
    work = await bench.started()
    await bench.rows("update deepline.attempts set status = 'retired'")
    await bench.rows("update deepline.runs set status = 'queued'")

    assert isinstance(await bench.commit(work), NotCommitted)
    finaliser = attrs.evolve(work.claim, engine_attempt=3)
    assert isinstance(await bench.commit(work, FAILURE, claim=finaliser), Committed)


async def test_the_log_tail_is_left_out_unless_kept(bench: StoreBench) -> None:
    """Logs that were streamed already are not stored a second time."""
    work = await bench.started()
    await bench.commit(work, Completed(output=1, report=Report(logs=("line",))))

    assert await bench.row("select log_tail, terminal ? 'logs' from deepline.runs") == (None, False)
    assert not await bench.row("select payload ? 'logTail' from deepline.outbox where seq = 2")


async def test_only_the_last_of_fifty_commits_is_refused(bench: StoreBench) -> None:
    """One refused row of a batch touches none of the others."""
    for number in range(50):
        await bench.submit(f"run-{number}")
    works = await bench.claim(quantity=50)
    outcomes: dict[int, Any] = {}

    async def commit(index: int, work: Any) -> None:
        changes = {} if index != 25 else {"ref": attrs.evolve(work.attempt.ref, attempt=9)}
        outcomes[index] = await bench.commit(work, **changes)

    async with trio.open_nursery() as nursery:
        for index, work in enumerate(works):
            nursery.start_soon(commit, index, work)

    assert isinstance(outcomes.pop(25), NotCommitted)
    assert len(outcomes) == 49
    assert all(isinstance(outcome, Committed) for outcome in outcomes.values())


async def test_two_ends_of_one_run_in_one_batch_are_one_end(bench: StoreBench) -> None:
    """Of two commits for a run that ride together, the first one asked wins."""
    work = await bench.started()
    outcomes: list[Any] = []

    async def commit(result: Any) -> None:
        outcomes.append(await bench.commit(work, result))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit, OUTPUT)
        nursery.start_soon(commit, FAILURE)

    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Committed", "NotCommitted"]
    assert (
        await bench.row(
            "select count(*) from deepline.outbox where event_id like 'run-terminal:%%'"
        )
        == 1
    )


@pytest.mark.parametrize("output", ["nul \x00", float("nan"), "half \ud800"])
async def test_what_cannot_be_stored_is_said_at_once(bench: StoreBench, output: Any) -> None:
    """A value the store cannot hold raises before anything is sent."""
    work = await bench.started()

    with pytest.raises((MalformedDocument, Refused)):
        await bench.commit(work, Completed(output=output))
    assert await bench.store.terminals.status(RunId("run")) is RunStatus.RUNNING


async def test_a_poison_row_spoils_only_itself(bench: StoreBench) -> None:
    """A row that the database refuses is refused alone; those beside it are committed."""
    for number in range(5):
        await bench.submit(f"run-{number}")
    works = await bench.claim(quantity=5)
    outcomes: dict[int, Any] = {}

    async def commit(index: int, work: Any) -> None:
        output = "nul \x00" if index == 2 else index
        try:
            outcomes[index] = await bench.commit(work, Completed(output=output))
        except (Refused, MalformedDocument) as refusal:
            outcomes[index] = refusal

    async with trio.open_nursery() as nursery:
        for index, work in enumerate(works):
            nursery.start_soon(commit, index, work)

    assert isinstance(outcomes.pop(2), Refused | MalformedDocument)
    assert all(isinstance(outcome, Committed) for outcome in outcomes.values())


async def test_the_first_offer_stays(bench: StoreBench) -> None:
    """The first terminal of an attempt is kept, whatever comes after (I02)."""
    work = await bench.started()
    terminals = bench.store.terminals
    key = key_of(work.attempt.ref)

    assert await terminals.offer(key, OUTPUT, NoFence(), WHY) == OfferStored()
    assert await terminals.offer(key, FAILURE, NoFence(), WHY) == OfferAlreadyStored()
    assert await terminals.stored(key) == OUTPUT
    await bench.commit(work)
    assert await terminals.offer(key, FAILURE, NoFence(), WHY) == OfferAlreadyStored()


async def test_simultaneous_offers_store_one(bench: StoreBench) -> None:
    """Of many offers at the same moment one is stored."""
    work = await bench.started()
    outcomes: list[object] = []

    async def offer(number: int) -> None:
        terminal = Completed(output=number)
        key = key_of(work.attempt.ref)
        outcomes.append(await bench.store.terminals.offer(key, terminal, NoFence(), WHY))

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(offer, number)

    assert outcomes.count(OfferStored()) == 1
    assert outcomes.count(OfferAlreadyStored()) == 9


async def test_an_offer_to_nobody_says_that_nothing_is_there(bench: StoreBench) -> None:
    """An attempt that does not exist is told apart from one that is over."""
    key = AttemptKey(RunId("nobody"), 1)

    outcome = await bench.store.terminals.offer(key, OUTPUT, NoFence(), WHY)

    assert outcome == OfferRefused(liveness_exists=False)
    assert await bench.store.terminals.stored(key) is None


async def test_an_offer_after_the_end_is_refused(bench: StoreBench) -> None:
    """Only a live attempt of an unfinished run accepts a terminal (Q56)."""
    work = await bench.started()
    await bench.store.terminals.cancel(RunId("run"), by="person", reason="enough", why=WHY)

    outcome = await bench.store.terminals.offer(key_of(work.attempt.ref), OUTPUT, NoFence(), WHY)

    assert outcome == OfferRefused(liveness_exists=True)


async def test_a_fenced_offer_needs_the_heartbeat_it_saw(bench: StoreBench) -> None:
    """A beat after the observation refuses the verdict, even in the same microsecond (I05)."""
    work = await bench.started()
    key = key_of(work.attempt.ref)
    store = bench.store
    assert await store.terminals.offer(
        key, FAILURE, ExpectHeartbeat(HeartbeatIdentity("2020-01-01T00:00:00.000000Z#1")), WHY
    ) == OfferRefused(liveness_exists=True)
    seen = await store.liveness.beat(key)
    await store.liveness.beat(key)
    assert isinstance(seen, BeatAccepted)

    refused = await store.terminals.offer(key, FAILURE, ExpectHeartbeat(seen.identity), WHY)
    never = await store.terminals.offer(key, FAILURE, ExpectHeartbeat(NEVER_BEATEN), WHY)

    assert refused == never == OfferRefused(liveness_exists=True)
    now = await store.liveness.read(key)
    assert now is not None
    fence = ExpectHeartbeat(now.identity)
    assert await store.terminals.offer(key, FAILURE, fence, WHY) == OfferStored()


async def test_a_fence_on_never_beaten_holds_only_before_the_first_beat(bench: StoreBench) -> None:
    """Never having beaten is an identity of its own and not the absence of a fence (I10)."""
    work = await bench.started()
    fence = ExpectHeartbeat(NEVER_BEATEN)

    outcome = await bench.store.terminals.offer(key_of(work.attempt.ref), FAILURE, fence, WHY)

    assert outcome == OfferStored()


async def test_each_beat_has_an_identity_of_its_own(bench: StoreBench) -> None:
    """No two accepted beats are alike, also when they arrive together (Q51)."""
    work = await bench.started()
    identities: list[object] = []

    async def beat() -> None:
        outcome = await bench.store.liveness.beat(key_of(work.attempt.ref))
        assert isinstance(outcome, BeatAccepted)
        identities.append(outcome.identity)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(beat)

    assert len(set(identities)) == 20
    liveness = await bench.store.liveness.read(key_of(work.attempt.ref))
    assert liveness is not None
    assert liveness.identity in identities
    assert str(liveness.identity.value).endswith("#20")


async def test_beats_stop_at_the_terminal_and_at_the_end(bench: StoreBench) -> None:
    """A runner whose attempt has its terminal, is over or unknown is told to stop (C34)."""
    work = await bench.started()
    key = key_of(work.attempt.ref)
    await bench.store.terminals.offer(key, OUTPUT, NoFence(), WHY)

    assert await bench.store.liveness.beat(key) == BeatRefused("terminal_stored")
    await bench.commit(work)
    assert await bench.store.liveness.beat(key) == BeatRefused("attempt_over")
    assert await bench.store.liveness.beat(AttemptKey(RunId("no"), 1)) == BeatRefused(
        "unknown_attempt"
    )
    assert await bench.store.liveness.read(AttemptKey(RunId("no"), 1)) is None


async def test_a_cancel_ends_a_run_with_all_that_belongs_to_it(bench: StoreBench) -> None:
    """Cancelling ends run, attempt and task, and owes the sandbox its cleanup (C09, Q37)."""
    work = await bench.parked()

    outcome = await bench.store.terminals.cancel(
        RunId("run"), by="person", reason="enough", why=WHY
    )

    assert outcome == Cancelled(had_attempt=True)
    assert await bench.row("select status, cancelled_by, terminal from deepline.runs") == (
        "cancelled",
        "person",
        None,
    )
    assert await bench.row("select status from deepline.attempts") == "cancelled"
    kind, payload = await bench.row("select kind, payload from deepline.outbox where seq = 2")
    assert (kind, payload["reason"]) == ("run.cancelled", "enough")
    assert await bench.row("select count(*) from deepline.cleanup_jobs") == 1
    assert await bench.engine_state() == "cancelled"
    assert await bench.commit(work, claim=None, from_waiting=True) == NotCommitted(
        status=RunStatus.CANCELLED
    )


async def test_a_cancel_is_refused_after_the_end(bench: StoreBench) -> None:
    """A run that has ended, or never was, is not cancelled."""
    work = await bench.started()
    await bench.commit(work)
    cancel = bench.store.terminals.cancel

    assert await cancel(RunId("run"), by="p", reason="r", why=WHY) == NotCancelled(
        status=RunStatus.COMPLETED
    )
    assert await cancel(RunId("nobody"), by="p", reason="r", why=WHY) == NotCancelled(status=None)


async def test_a_queued_run_is_cancelled_without_an_attempt(bench: StoreBench) -> None:
    """A run that waits for admission can be cancelled and is never claimed after."""
    await bench.submit()

    outcome = await bench.store.terminals.cancel(RunId("run"), by="p", reason="r", why=WHY)

    assert outcome == Cancelled(had_attempt=False)
    assert await bench.claim() == []


async def test_cancel_and_commit_race_to_one_end(bench: StoreBench) -> None:
    """Whichever commits first wins, the loser learns it; each run ends once (Q37)."""
    for number in range(20):
        await bench.submit(f"run-{number}")
    works = await bench.claim_all_fresh(20)
    ends: dict[str, list[object]] = {f"run-{number}": [] for number in range(20)}

    async def commit(work: Fresh) -> None:
        ends[work.claim.run_id].append(await bench.commit(work))

    async def cancel(work: Fresh) -> None:
        run_id = work.claim.run_id
        cancel_run = bench.store.terminals.cancel
        ends[run_id].append(await cancel_run(run_id, by="p", reason="r", why=WHY))

    async with trio.open_nursery() as nursery:
        for work in works:
            nursery.start_soon(commit, work)
            nursery.start_soon(cancel, work)

    for outcomes in ends.values():
        assert sum(isinstance(outcome, Committed | Cancelled) for outcome in outcomes) == 1
    facts = "select count(*) from deepline.outbox where event_id like 'run-terminal:%%'"
    assert await bench.row(facts) == 20


async def test_only_an_unstarted_run_is_settled_so(bench: StoreBench) -> None:
    """Settling an unstarted run asks for no attempt, this release and this task (I28)."""
    await bench.submit(release="release-1")
    task_id = str(await bench.row("select task_id from deepline.runs"))
    right = Unstarted(release_id=ReleaseId("release-1"), task_id=task_id)
    settle = bench.store.terminals.cancel_unstarted
    run_id = RunId("run")

    for wrong in (
        attrs.evolve(right, release_id=None),
        attrs.evolve(right, task_id="00000000-0000-0000-0000-000000000000"),
    ):
        assert await settle(run_id, wrong, reason="r", why=WHY) == NotCancelled(
            status=RunStatus.QUEUED
        )
    assert await settle(run_id, right, reason="r", why=WHY) == Cancelled(had_attempt=False)


async def test_a_started_run_is_not_settled_as_unstarted(bench: StoreBench) -> None:
    """A run that ever had an attempt is left to those who hold it."""
    work = await bench.started()
    condition = Unstarted(release_id=None, task_id=work.claim.task_id)

    outcome = await bench.store.terminals.cancel_unstarted(
        RunId("run"), condition, reason="r", why=WHY
    )

    assert outcome == NotCancelled(status=RunStatus.RUNNING)


async def test_the_claim_of_another_run_ends_nothing(bench: StoreBench) -> None:
    """A claim holds the engine run of its own run alone."""
    await bench.submit("one")
    await bench.submit("two")
    one, two = await bench.claim_all_fresh(2)

    assert isinstance(await bench.commit(one, claim=two.claim), NotCommitted)

    assert await bench.engine_state("two") == "running"
    gone = attrs.evolve(one.attempt.ref, run_id=RunId("nobody"))
    assert await bench.commit(one, ref=gone) == NotCommitted(status=None)
