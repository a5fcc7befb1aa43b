"""An attempt between its claim and its end: bound, parked, resumed, retired (C17, C29, C64)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
import trio

from deepline.core.model.attempt import AttemptStatus, RetireReason
from deepline.core.model.checkpoint import Checkpoint, SilenceProof, SilenceWatch
from deepline.core.model.heartbeat import NEVER_BEATEN, HeartbeatIdentity, NoFence
from deepline.core.model.identity import AttemptKey, LeaseToken, RunId
from deepline.core.model.run import RunStatus
from deepline.ports.attempts import LostFence, OutageExhausted, Parked, Retired
from deepline.ports.liveness import BeatAccepted
from deepline.ports.terminals import Committed
from tests.support.store import (
    LATER,
    OUTPUT,
    SANDBOX,
    WHY,
    StoreBench,
    detached,
    event,
    key_of,
)

TEN_MINUTES = timedelta(minutes=10)
SECOND = timedelta(seconds=1)


def other_lease(ref: Any) -> Any:
    """The same attempt under a lease token nobody gave."""
    return attrs.evolve(ref, lease_token=LeaseToken("other"))


async def test_a_parked_attempt_waits_and_its_engine_run_sleeps(bench: StoreBench) -> None:
    """Parking marks the attempt and puts the engine run to sleep at no engine attempt (C29)."""
    work = await bench.started()
    until = datetime.now(UTC) + LATER
    silence = SilenceWatch(
        boundary_id="boundary", runner_attempt=1, heartbeat=NEVER_BEATEN, silent_slices=2
    )

    outcome = await bench.park(work, until=until, silence=silence)

    assert outcome == Parked(until)
    attempt = await bench.store.attempts.read(key_of(work.attempt.ref))
    assert attempt is not None
    assert attempt.status is AttemptStatus.WAITING
    assert attempt.suspension == detached(1)
    assert attempt.checkpoint == Checkpoint(state={"at": "step"})
    assert attempt.silence == silence
    assert await bench.store.terminals.status(RunId("run")) is RunStatus.WAITING
    assert await bench.engine_state() == "sleeping"
    assert not await bench.is_due()


async def test_a_wake_finds_what_was_parked(bench: StoreBench) -> None:
    """A due run is claimed with its attempt as it was parked, under the same lease."""
    parked = await bench.parked()
    await bench.make_due("run")

    wake = await bench.claim_wake()

    assert wake.attempt.ref == parked.attempt.ref
    assert wake.claim.engine_run_id == parked.claim.engine_run_id
    assert wake.claim.engine_attempt == 1
    assert wake.attempt.suspension == detached(1)


async def test_a_proof_of_silence_survives_parking(bench: StoreBench) -> None:
    """The checkpoint's silence proof is the same after it was stored (C30)."""
    work = await bench.started()
    checkpoint = Checkpoint(
        state={"n": [1, 2]},
        silence_proof=SilenceProof(
            boundary_id="boundary", runner_attempt=1, heartbeat=HeartbeatIdentity("then#4")
        ),
    )

    await bench.store.attempts.park(
        work.attempt.ref,
        work.claim,
        detached(1),
        until=datetime.now(UTC) + LATER,
        checkpoint=checkpoint,
        silence=None,
        why=WHY,
    )

    attempt = await bench.store.attempts.read(key_of(work.attempt.ref))
    assert attempt is not None
    assert attempt.checkpoint == checkpoint


async def test_a_park_under_a_lost_fence_writes_nothing(bench: StoreBench) -> None:
    """Another lease, or a claim that somebody else has, refuses the park."""
    work = await bench.started()

    stranger = attrs.evolve(
        work, attempt=attrs.evolve(work.attempt, ref=other_lease(work.attempt.ref))
    )
    assert await bench.park(stranger) == LostFence()
    thief = attrs.evolve(work, claim=attrs.evolve(work.claim, owner="thief"))
    assert await bench.park(thief) == LostFence()
    assert await bench.engine_state() == "running"
    assert await bench.rows("select 1 from deepline.decisions") == []


async def test_a_terminal_stored_before_the_park_wakes_at_once(bench: StoreBench) -> None:
    """The runner may push while its worker still parks; then the run is due at once."""
    work = await bench.started()
    await bench.store.terminals.offer(key_of(work.attempt.ref), OUTPUT, NoFence(), WHY)

    await bench.park(work)

    assert await bench.is_due()


async def test_a_terminal_offered_after_the_park_wakes_the_run(bench: StoreBench) -> None:
    """An accepted terminal makes the sleeping engine run due in the same commit (C34)."""
    work = await bench.parked()

    await bench.store.terminals.offer(key_of(work.attempt.ref), OUTPUT, NoFence(), WHY)

    wake = await bench.claim_wake()
    assert wake.attempt.runner_terminal == OUTPUT


async def test_no_wake_is_lost_between_offer_and_park(bench: StoreBench) -> None:
    """However offers and parks interleave, a run with a terminal is due."""
    for number in range(40):
        await bench.submit(f"run-{number}")
    works = await bench.claim_all_fresh(40)

    async with trio.open_nursery() as nursery:
        for work in works:
            nursery.start_soon(bench.park, work)
            nursery.start_soon(
                bench.store.terminals.offer,
                key_of(work.attempt.ref),
                OUTPUT,
                NoFence(),
                WHY,
            )

    assert len(await bench.claim(quantity=100)) == 40


async def test_heartbeats_do_not_wake(bench: StoreBench) -> None:
    """A beat is accepted without touching the queue."""
    work = await bench.parked()

    assert isinstance(await bench.store.liveness.beat(key_of(work.attempt.ref)), BeatAccepted)
    assert not await bench.is_due()


async def test_a_beat_after_the_watched_one_ends_the_watch_at_once(bench: StoreBench) -> None:
    """A silence confirmation is about one heartbeat; a park that missed a newer is due (C31)."""
    work = await bench.started()
    await bench.store.liveness.beat(key_of(work.attempt.ref))
    silence = SilenceWatch(
        boundary_id="boundary", runner_attempt=1, heartbeat=NEVER_BEATEN, silent_slices=1
    )

    await bench.park(work, silence=silence)

    assert await bench.is_due()


async def test_waiting_for_long_keeps_one_reason(bench: StoreBench) -> None:
    """A park that repeats the newest decision replaces it; another decision between is kept."""
    work = await bench.parked()
    for _ in range(3):
        await bench.make_due("run")
        work = await bench.claim_wake()  # type: ignore[assignment]
        await bench.park(work)

    assert await bench.rows("select rule from deepline.decisions") == ["test.rule"]


async def test_a_resumed_attempt_runs_under_its_own_fence(bench: StoreBench) -> None:
    """A woken attempt goes on running under the lease it had (C20, C21)."""
    await bench.parked()
    await bench.make_due("run")
    wake = await bench.claim_wake()

    assert await bench.store.attempts.resume(wake.attempt.ref, wake.claim, Checkpoint())
    assert not await bench.store.attempts.resume(wake.attempt.ref, wake.claim, Checkpoint())
    assert await bench.store.terminals.status(RunId("run")) is RunStatus.RUNNING
    assert isinstance(await bench.commit(wake), Committed)


async def test_a_resumed_attempt_is_never_started_anew(bench: StoreBench) -> None:
    """If its worker dies after resuming a sleep, the attempt waits again: its play began (I11)."""
    work = await bench.started()
    await bench.park(work, event())
    await bench.make_due("run")
    wake = await bench.claim_wake()
    await bench.store.attempts.resume(wake.attempt.ref, wake.claim, Checkpoint())
    await bench.lose_claim(wake)

    again = await bench.claim_wake()

    assert again.attempt.ref.attempt == 1
    assert again.attempt.suspension == event()


async def test_a_resume_under_a_lost_claim_is_refused(bench: StoreBench) -> None:
    """Only the claim in force takes an attempt back to running."""
    stale = await bench.parked()
    await bench.make_due("run")
    wake = await bench.claim_wake()

    assert not await bench.store.attempts.resume(wake.attempt.ref, stale.claim, Checkpoint())
    assert not await bench.store.attempts.resume(
        other_lease(wake.attempt.ref), wake.claim, Checkpoint()
    )


async def test_a_deferral_changes_nothing_of_the_attempt(bench: StoreBench) -> None:
    """Deferring sleeps in the engine; the attempt's row stays as it is (I15, I17)."""
    await bench.parked()
    await bench.make_due("run")
    wake = await bench.claim_wake()
    before = await bench.row("select a::text from deepline.attempts a")

    assert await bench.store.attempts.defer(wake.claim, timedelta(seconds=5), WHY)

    assert await bench.row("select a::text from deepline.attempts a") == before
    assert not await bench.is_due()
    assert not await bench.store.attempts.defer(wake.claim, SECOND, WHY)
    await bench.make_due("run")
    assert (await bench.claim_wake()).claim.engine_attempt == 1


async def test_a_deferral_sleeps_as_long_as_asked(bench: StoreBench) -> None:
    """The due time is the delay from now, by the database's clock."""
    work = await bench.started()

    await bench.store.attempts.defer(work.claim, timedelta(seconds=30), WHY)

    left_s = await bench.row(
        "select extract(epoch from available_at - clock_timestamp())::float8 from absurd.r_runs"
    )
    assert 25 < left_s <= 30


async def test_a_retired_attempt_queues_its_run_with_its_cleanup(bench: StoreBench) -> None:
    """Giving up owes a cleanup in the same commit and keeps the run admitted (C54, I13)."""
    work = await bench.started()
    await bench.bind(work)

    outcome = await bench.store.attempts.retire(
        work.attempt.ref, work.claim, RetireReason.CAPACITY, delay=SECOND, why=WHY
    )

    assert outcome == Retired(None)
    assert await bench.row("select status, admitted_at is not null from deepline.runs") == (
        "queued",
        True,
    )
    assert await bench.rows("select operation_key from deepline.cleanup_jobs") == ["operation"]
    assert not await bench.store.attempts.is_live(work.attempt.ref)
    await bench.make_due("run")
    fresh = await bench.claim_fresh()
    assert (fresh.attempt.ref.attempt, fresh.claim.engine_attempt) == (2, 1)


async def test_a_retire_under_a_lost_fence_writes_nothing(bench: StoreBench) -> None:
    """A second retire, another lease, a waiting attempt: all are refused."""
    work = await bench.started()
    retire = bench.store.attempts.retire

    wrong = other_lease(work.attempt.ref)
    lost = await retire(wrong, work.claim, RetireReason.CAPACITY, delay=SECOND, why=WHY)
    assert lost == LostFence()
    await bench.park(work)
    waiting = await retire(
        work.attempt.ref, work.claim, RetireReason.CAPACITY, delay=SECOND, why=WHY
    )
    assert waiting == LostFence()


async def fresh_in_outage(bench: StoreBench) -> Any:
    """Retire a fresh attempt for a token outage and claim its successor."""
    work = await bench.started()
    outcome = await bench.store.attempts.retire_for_outage(
        work.attempt.ref, work.claim, bound=TEN_MINUTES, delay=SECOND, why=WHY
    )
    assert isinstance(outcome, Retired)
    assert outcome.outage_started_at is not None
    await bench.make_due("run")
    work = await bench.claim_fresh()
    assert work.attempt.outage_started_at == outcome.outage_started_at
    return work


async def test_an_outage_keeps_its_start_along_the_chain(bench: StoreBench) -> None:
    """Attempts retired for one outage carry its first moment (C17, I16)."""
    work = await fresh_in_outage(bench)

    outcome = await bench.store.attempts.retire_for_outage(
        work.attempt.ref, work.claim, bound=TEN_MINUTES, delay=SECOND, why=WHY
    )

    assert outcome == Retired(work.attempt.outage_started_at)


async def test_an_outage_past_its_bound_writes_nothing(bench: StoreBench) -> None:
    """The bound is a length of time and not a count; past it the caller must settle (C17.2)."""
    work = await fresh_in_outage(bench)
    await bench.rows(
        "update deepline.attempts set outage_started_at = outage_started_at - interval '10 minutes'"
    )

    outcome = await bench.store.attempts.retire_for_outage(
        work.attempt.ref, work.claim, bound=TEN_MINUTES, delay=SECOND, why=WHY
    )

    assert outcome == OutageExhausted(work.attempt.outage_started_at - TEN_MINUTES)
    assert await bench.store.attempts.is_live(work.attempt.ref)


async def test_a_token_breaks_the_outage_chain(bench: StoreBench) -> None:
    """An attempt that got its token carries no outage on, nor do its successors (Q31)."""
    work = await fresh_in_outage(bench)

    await bench.store.attempts.token_obtained(other_lease(work.attempt.ref))
    still = await bench.store.attempts.read(key_of(work.attempt.ref))
    assert still is not None
    assert still.outage_started_at is not None
    await bench.store.attempts.token_obtained(work.attempt.ref)

    attempt = await bench.store.attempts.read(key_of(work.attempt.ref))
    assert attempt is not None
    assert attempt.outage_started_at is None
    assert await bench.row("select outage_started_at from deepline.runs") is None


@pytest.mark.parametrize("reason", [RetireReason.CAPACITY, RetireReason.PRE_CODE])
async def test_other_reasons_carry_no_outage_on(bench: StoreBench, reason: RetireReason) -> None:
    """Only retirements for the outage itself keep its start (Q31)."""
    work = await fresh_in_outage(bench)

    await bench.store.attempts.retire(work.attempt.ref, work.claim, reason, delay=SECOND, why=WHY)

    await bench.make_due("run")
    assert (await bench.claim_fresh()).attempt.outage_started_at is None


async def test_a_bound_sandbox_is_on_the_attempt(bench: StoreBench) -> None:
    """Binding records suspension, operation and the start of the sandbox's time (C46, C55)."""
    work = await bench.started()

    assert await bench.bind(work)

    attempt = await bench.store.attempts.read(key_of(work.attempt.ref))
    assert attempt is not None
    assert (attempt.status, attempt.suspension) == (AttemptStatus.RUNNING, detached(1))
    assert await bench.row(
        "select state, sandbox_id, routing_domain, bound_at is not null"
        " from deepline.sandbox_operations"
    ) == ("bound", SANDBOX.sandbox_id, SANDBOX.routing_domain, True)
    assert await bench.row("select sandbox_id from deepline.sandbox_usage") == SANDBOX.sandbox_id
    assert await bench.rows("select 1 from deepline.cleanup_jobs") == []


async def test_a_sandbox_of_a_lost_attempt_is_owed_a_cleanup(bench: StoreBench) -> None:
    """A sandbox that came after its attempt had ended is recorded to be deleted (C64, I50)."""
    work = await bench.started()
    await bench.store.terminals.cancel(RunId("run"), by="p", reason="r", why=WHY)

    assert not await bench.bind(work)

    assert await bench.rows("select sandbox_id, routing_domain from deepline.cleanup_jobs") == [
        (SANDBOX.sandbox_id, SANDBOX.routing_domain)
    ]
    assert await bench.row("select suspension from deepline.attempts") is None


async def test_a_late_sandbox_reopens_a_search_that_found_nothing(bench: StoreBench) -> None:
    """An obligation closed before the sandbox appeared is opened again with its id."""
    work = await bench.started()
    await bench.rows(
        "insert into deepline.sandbox_operations"
        " (operation_key, token, name, provider, org_id, run_id, attempt)"
        " values ('operation', 'token', 'dl-token', 'local', 'org', 'run', 1)"
    )
    await bench.store.terminals.cancel(RunId("run"), by="p", reason="r", why=WHY)
    await bench.rows("update deepline.cleanup_jobs set done_at = now()")

    assert not await bench.bind(work)

    assert await bench.row(
        "select sandbox_id, sandbox_name, done_at from deepline.cleanup_jobs"
    ) == (SANDBOX.sandbox_id, "dl-token", None)


async def test_liveness_of_an_attempt_needs_its_lease(bench: StoreBench) -> None:
    """The token route accepts the exact lease of a live attempt, a runner proves it otherwise."""
    work = await bench.started()
    attempts = bench.store.attempts

    assert await attempts.is_live(work.attempt.ref)
    assert not await attempts.is_live(other_lease(work.attempt.ref))
    assert await attempts.key_is_live(key_of(work.attempt.ref))
    assert not await attempts.key_is_live(AttemptKey(RunId("run"), 2))
    await bench.commit(work)
    assert not await attempts.key_is_live(key_of(work.attempt.ref))
    assert await attempts.read(AttemptKey(RunId("nobody"), 1)) is None


async def test_a_suspension_that_cannot_be_read_is_marked(bench: StoreBench) -> None:
    """What was stored malformed is told apart from what was never stored (C39)."""
    work = await bench.parked()
    await bench.rows('update deepline.attempts set suspension = \'{"kind": "other"}\'')

    attempt = await bench.store.attempts.read(key_of(work.attempt.ref))

    assert attempt is not None
    assert attempt.suspension is None
    assert attempt.suspension_malformed


async def test_waits_for_a_dependency_are_counted(bench: StoreBench) -> None:
    """A deferral for a dependency counts in the commit that gives the attempt up (C53)."""
    work = await bench.started()
    key = key_of(work.attempt.ref)
    assert await bench.store.attempts.recovery(key, "daytona") is None
    for _ in range(2):
        await bench.store.attempts.retire(
            work.attempt.ref,
            work.claim,
            RetireReason.PRE_CODE,
            delay=SECOND,
            why=WHY,
            dependency="daytona",
        )
        await bench.make_due("run")
        work = await bench.claim_fresh()

    recovery = await bench.store.attempts.recovery(key, "daytona")

    assert recovery is not None
    assert recovery.deferrals == 2
    assert recovery.first_failed_at < work.claim.claimed_at
    assert await bench.store.attempts.recovery(key, "modal") is None


async def test_a_failed_fresh_attempt_is_retired_with_the_engine_attempt(bench: StoreBench) -> None:
    """Spending the engine attempt also gives up an attempt without a runner (C19.6, I13)."""
    work = await bench.started()

    assert await bench.store.attempts.fail(work.attempt.ref, work.claim, WHY, reason="boom")

    assert not await bench.store.attempts.is_live(work.attempt.ref)
    assert not await bench.store.attempts.fail(work.attempt.ref, work.claim, WHY, reason="boom")
    await bench.make_due("run")
    fresh = await bench.claim_fresh()
    assert (fresh.attempt.ref.attempt, fresh.claim.engine_attempt) == (2, 2)


async def test_a_failed_attempt_with_a_runner_stays(bench: StoreBench) -> None:
    """An attempt whose runner may live is left as it is and taken over by the next claim (A31)."""
    work = await bench.started()
    await bench.bind(work)

    assert await bench.store.attempts.fail(work.attempt.ref, work.claim, WHY, reason="boom")

    assert await bench.rows("select 1 from deepline.cleanup_jobs") == []
    await bench.make_due("run")
    wake = await bench.claim_wake()
    assert wake.adopted
    assert wake.claim.engine_attempt == 2


async def test_an_adopted_attempt_says_so_until_it_parks(bench: StoreBench) -> None:
    """Whether its runner was started is in doubt until somebody who knows parks it again."""
    work = await bench.started()
    await bench.bind(work)
    await bench.lose_claim(work)
    wake = await bench.claim_wake()
    assert wake.adopted
    await bench.store.attempts.defer(wake.claim, SECOND, WHY)
    await bench.make_due("run")
    wake = await bench.claim_wake()
    assert wake.adopted

    await bench.park(wake)

    await bench.make_due("run")
    assert not (await bench.claim_wake()).adopted


async def test_who_waits_for_an_event_holds_no_sandbox(bench: StoreBench) -> None:
    """Parking for a time or an event owes the attempt's sandbox its cleanup; for a runner not."""
    work = await bench.parked()
    assert await bench.rows("select 1 from deepline.cleanup_jobs") == []
    await bench.make_due("run")
    wake = await bench.claim_wake()

    await bench.park(wake, event())

    assert await bench.rows("select sandbox_id from deepline.cleanup_jobs") == [SANDBOX.sandbox_id]
    assert work.attempt.ref == wake.attempt.ref


async def test_a_deferral_of_nothing_wakes_the_lane(bench: StoreBench) -> None:
    """A run put off by no time is due at once."""
    work = await bench.started()

    await bench.store.attempts.defer(work.claim, timedelta(0), WHY)

    assert await bench.is_due()


async def test_a_claim_carries_the_stores_clock(bench: StoreBench) -> None:
    """The time of a claim is the database's, and is kept when it is prepared again."""
    await bench.submit(project_created=False)
    (pending,) = await bench.claim()
    now = await bench.row("select clock_timestamp()")
    assert now - timedelta(seconds=30) < pending.claim.claimed_at <= now

    prepared = await bench.store.attempts.prepare(pending.claim, placement_keys=[], worker="w")

    assert prepared.claim == pending.claim


async def test_fault_F37_three_lost_leases_are_three_attempts(bench: StoreBench) -> None:
    """Each claim that was lost leaves an attempt with its worker, its times and its reason."""
    await bench.lose_claim(await bench.started(max_engine_attempts=5))
    for _ in range(2):
        await bench.lose_claim(await bench.claim_fresh())
    await bench.claim_fresh()

    told = await bench.rows(
        "select attempt, engine_attempt, worker is not null, created_at <= updated_at, status,"
        " retired_reason from deepline.attempts order by attempt"
    )
    lost = [(at, at, True, True, "retired", "lease_lost") for at in (1, 2, 3)]
    assert [tuple(row) for row in told] == [*lost, (4, 4, True, True, "running", None)]
