"""Steps of a random script that move runs: submit, claim, park, retire, end."""

from datetime import timedelta

from deepline.core.model.attempt import RetireReason
from deepline.core.model.checkpoint import Checkpoint, SilenceWatch
from deepline.core.model.claim import Prepared
from deepline.core.model.identity import AttemptRef
from deepline.core.model.ledger import SettledProgress
from deepline.core.model.result import Report, Suspended
from deepline.core.model.sandbox import SandboxRef
from deepline.core.model.suspension import DetachedSuspension, EventSuspension, SleepSuspension
from deepline.core.model.suspension import Suspension as AnySuspension
from deepline.ports.attempts import ClaimRequest
from deepline.ports.terminals import TerminalCommit, Unstarted
from deepline.testing.scene import LANE, PROVIDER, RELEASE, key_of
from deepline.testing.script_stage import LEASE, ORGS, PAUSES, Stage, Verb

NOTHING = "nothing to do it with"


async def _advance(stage: Stage) -> object:
    pause = stage.chance.choice(PAUSES)
    await stage.stores.advance(pause)
    return pause.total_seconds()


async def _submit(stage: Stage) -> object:
    runs = {stage.run() for _ in range(stage.chance.randrange(1, 4))}
    submissions = [
        stage.scene.submission(run, org=stage.chance.choice(ORGS), engine=2, finaliser=2)
        for run in sorted(runs)
    ]
    return await stage.stores.admission.submit(submissions)


async def _acknowledge(stage: Stage) -> object:
    lease = await stage.stores.outbox.lease_run(
        stage.run(), stage.scene.owner("dispatcher"), lease=LEASE, facts_per_run=9
    )
    if lease is None:
        return None
    return await stage.stores.outbox.delivered(lease, through_seq=lease.facts[-1].seq)


async def _claim(stage: Stage) -> object:
    keys = ["key-1"] if stage.chance.random() < 0.9 else ["key-2"]
    request = ClaimRequest(
        lane=LANE,
        owner=stage.scene.owner(),
        worker="worker",
        lease=LEASE,
        quantity=10,
        org_limit=stage.chance.choice([1, 2, 100]),
        placement_keys=keys,
    )
    found = sorted(await stage.stores.attempts.claim(request), key=_run_id)
    for prepared in found:
        stage.keep(prepared)
    return found


def _run_id(prepared: Prepared) -> str:
    return prepared.claim.run_id


async def _prepare(stage: Stage) -> object:
    if not stage.claims:
        return NOTHING
    claim = stage.pick(stage.claims)
    prepared = await stage.stores.attempts.prepare(claim, placement_keys=["key-1"], worker="worker")
    stage.keep(prepared)
    return prepared


async def _read(stage: Stage) -> object:
    return await stage.stores.attempts.read(stage.key())


async def _bind(stage: Stage) -> object:
    if not stage.refs:
        return NOTHING
    ref = stage.pick(stage.refs)
    operation = stage.newest_operation(ref)
    if operation is None:
        return NOTHING
    sandbox = SandboxRef(provider=PROVIDER, sandbox_id=_sandbox_id(ref))
    suspension = await _detached(stage, ref)
    return await stage.stores.attempts.bind_sandbox(
        ref, sandbox, suspension, operation_key=operation.key
    )


def _sandbox_id(ref: AttemptRef) -> str:
    return f"sandbox-{ref.run_id}-{ref.attempt}"


async def _detached(stage: Stage, ref: AttemptRef) -> DetachedSuspension:
    return DetachedSuspension(
        boundary_id="boundary",
        runner_attempt=ref.attempt,
        sandbox_id=_sandbox_id(ref),
        sandbox_provider=PROVIDER,
        session_id="session",
        command_id="command",
        started_at=await stage.due_in(ref.run_id),
        ceiling=timedelta(hours=1),
    )


async def _waiting_for(stage: Stage, ref: AttemptRef) -> AnySuspension:
    kind = stage.chance.randrange(4)
    boundary_id = f"wait-{stage.chance.randrange(2)}"
    if kind == 0:
        wake_at = await stage.due_in(ref.run_id)
        return SleepSuspension(boundary_id=boundary_id, runner_attempt=ref.attempt, wake_at=wake_at)
    if kind == 1:
        return EventSuspension(
            boundary_id=boundary_id, runner_attempt=ref.attempt, event_key="event"
        )
    return await _detached(stage, ref)


async def _park(stage: Stage) -> object:
    held = stage.held()
    if held is None:
        return NOTHING
    ref, claim = held
    silence = None
    if stage.chance.random() < 0.3:
        silence = SilenceWatch(
            boundary_id="boundary",
            runner_attempt=ref.attempt,
            heartbeat=stage.pick(stage.beats),
            silent_slices=stage.chance.randrange(4),
        )
    return await stage.stores.attempts.park(
        ref,
        claim,
        await _waiting_for(stage, ref),
        until=await stage.due_in(ref.run_id),
        checkpoint=Checkpoint(state={"n": stage.chance.randrange(5)}),
        silence=silence,
        why=stage.why(),
    )


async def _resume(stage: Stage) -> object:
    held = stage.held()
    if held is None:
        return NOTHING
    checkpoint = Checkpoint(state={"resumed": stage.chance.randrange(5)})
    return await stage.stores.attempts.resume(*held, checkpoint)


async def _suspend(stage: Stage) -> object:
    if not stage.refs:
        return NOTHING
    ref = stage.pick(stage.refs)
    report = Report(checkpoint=Checkpoint(state={"n": stage.chance.randrange(5)}))
    suspended = Suspended(suspension=await _waiting_for(stage, ref), report=report)
    return await stage.stores.terminals.suspend(key_of(ref), suspended, stage.why())


async def _defer(stage: Stage) -> object:
    if not stage.claims:
        return NOTHING
    claim = stage.pick(stage.claims)
    return await stage.stores.attempts.defer(claim, stage.delay(), stage.why())


async def _retire(stage: Stage) -> object:
    held = stage.held()
    if held is None:
        return NOTHING
    reason = stage.chance.choice([RetireReason.CAPACITY, RetireReason.PRE_CODE])
    dependency = stage.chance.choice([None, "sandbox"])
    return await stage.stores.attempts.retire(
        *held, reason, delay=stage.delay(), why=stage.why(), dependency=dependency
    )


async def _recovery(stage: Stage) -> object:
    return await stage.stores.attempts.recovery(stage.key(), "sandbox")


async def _fail_attempt(stage: Stage) -> object:
    held = stage.held()
    if held is None:
        return NOTHING
    return await stage.stores.attempts.fail(*held, stage.why(), reason="it broke")


async def _retire_for_outage(stage: Stage) -> object:
    held = stage.held()
    if held is None:
        return NOTHING
    return await stage.stores.attempts.retire_for_outage(
        *held, bound=timedelta(seconds=55), delay=stage.delay(), why=stage.why()
    )


async def _token_obtained(stage: Stage) -> object:
    if not stage.refs:
        return NOTHING
    await stage.stores.attempts.token_obtained(stage.pick(stage.refs))
    return "done"


async def _is_live(stage: Stage) -> object:
    if not stage.refs:
        return NOTHING
    ref = stage.pick(stage.refs)
    attempts = stage.stores.attempts
    return [await attempts.is_live(ref), await attempts.key_is_live(key_of(ref))]


async def _commit(stage: Stage) -> object:
    held = stage.held()
    if held is None:
        return NOTHING
    ref, claim = held
    chance = stage.chance
    settled = [
        SettledProgress(event_id=f"settled-{ref.run_id}-{number}", payload={})
        for number in range(chance.randrange(3))
    ]
    return await stage.stores.terminals.commit(
        TerminalCommit(
            ref=ref,
            claim=claim if chance.random() < 0.8 else None,
            result=stage.terminal(),
            why=stage.why(),
            from_waiting=chance.random() < 0.5,
            preserve_runner_terminal=chance.random() < 0.5,
            settled_progress=settled,
            keep_log_tail=chance.random() < 0.5,
            request_crash_diagnostic=chance.random() < 0.5,
        )
    )


async def _offer(stage: Stage) -> object:
    terminal, fence = stage.terminal(), stage.fence()
    return await stage.stores.terminals.offer(stage.key(), terminal, fence, stage.why())


async def _stored(stage: Stage) -> object:
    return await stage.stores.terminals.stored(stage.key())


async def _cancel(stage: Stage) -> object:
    return await stage.stores.terminals.cancel(
        stage.run(), by="someone", reason="enough", why=stage.why()
    )


async def _cancel_unstarted(stage: Stage) -> object:
    if not stage.claims:
        return NOTHING
    claim = stage.pick(stage.claims)
    release = RELEASE if stage.chance.random() < 0.8 else None
    return await stage.stores.terminals.cancel_unstarted(
        claim.run_id,
        Unstarted(release_id=release, task_id=claim.task_id),
        reason="broken",
        why=stage.why(),
    )


async def _status(stage: Stage) -> object:
    return await stage.stores.terminals.status(stage.run())


async def _extend(stage: Stage) -> object:
    claims = {claim.owner + claim.run_id: claim for claim in stage.claims[-6:]}
    lost = await stage.stores.engine.extend(list(claims.values()), LEASE)
    return sorted(f"{claim.run_id} {claim.engine_attempt}" for claim in lost)


async def _fail(stage: Stage) -> object:
    if not stage.claims:
        return NOTHING
    return await stage.stores.engine.fail(stage.pick(stage.claims), "it broke")


async def _complete(stage: Stage) -> object:
    if not stage.claims:
        return NOTHING
    return await stage.stores.engine.complete(stage.pick(stage.claims))


async def _next_due(stage: Stage) -> object:
    due = await stage.stores.engine.next_due(LANE)
    return "idle" if due is None else "now" if not due else "later"


VERBS_OF_RUNS: dict[str, Verb] = {
    "advance": Verb(8, _advance),
    "submit": Verb(5, _submit),
    "acknowledge": Verb(8, _acknowledge),
    "claim": Verb(14, _claim),
    "prepare": Verb(2, _prepare),
    "read": Verb(3, _read),
    "bind": Verb(8, _bind),
    "park": Verb(8, _park),
    "resume": Verb(5, _resume),
    "suspend": Verb(4, _suspend),
    "defer": Verb(3, _defer),
    "retire": Verb(2, _retire),
    "retire_for_outage": Verb(5, _retire_for_outage),
    "recovery": Verb(1, _recovery),
    "fail_attempt": Verb(2, _fail_attempt),
    "token_obtained": Verb(1, _token_obtained),
    "is_live": Verb(2, _is_live),
    "commit": Verb(5, _commit),
    "offer": Verb(6, _offer),
    "stored": Verb(1, _stored),
    "cancel": Verb(1, _cancel),
    "cancel_unstarted": Verb(1, _cancel_unstarted),
    "status": Verb(2, _status),
    "extend": Verb(4, _extend),
    "fail": Verb(2, _fail),
    "complete": Verb(1, _complete),
    "next_due": Verb(2, _next_due),
}
